// Package blockapi is the block daemon as other processes see it: its configuration, how it is started, what it counts
// and reports, and how it is asked over its socket.
//
// It owns the wire formats between init, supervisor, block daemon and agent; all are the same program, so they have no
// versions. It must not serve reads: that is node/blockd.
package blockapi
