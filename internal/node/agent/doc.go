// Package agent reports the state of the running node (events, counters and marks) and carries out the server's
// commands.
//
// It owns the session with the server and the record of what was reported. The wiring of package node runs it and
// connects it with other packages by interfaces. It must survive being killed at any moment, and must not stop the
// root's daemons.
package agent
