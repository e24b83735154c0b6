// Package journal stores the journals of nodes. It takes uploads of systemd-journal-upload and has
// systemd-journal-remote write them as journal files of one boot each, which journalctl reads.
//
// It cuts an upload into entries, bounds it, and leaves out entries that it has already (by their cursor). It
// acknowledges only what systemd-journal-remote has written; a node sends the rest again. Of systemd's formats it
// reads only the export format.
//
// It owns the directories PATH/NODE/BOOT; it deletes the oldest when its space is used up. The server's room logs
// calls it. It must never acknowledge an entry that is not on disk.
package journal
