// Package journal keeps the journals of nodes: what their systemd-journal-upload sends becomes journal files of one
// boot each, which journalctl reads.
//
// An upload is cut into whole entries here, bounded, and handed to systemd-journal-remote, which writes the files;
// what it did not write is not acknowledged, so the node sends it again. An entry that was written already is left
// out by its cursor. The files of a boot are a directory, PATH/NODE/BOOT; the oldest go when there is no room.
// Nothing of systemd's own formats is read here but its export format.
package journal
