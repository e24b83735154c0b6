// Package blockapi is the block daemon as other processes see it: its configuration, how it is started, its counters,
// and the requests on its socket.
//
// It owns the formats between init, supervisor, block daemon and agent. All four are the same program, so the formats
// have no versions. Those four use it. It must not serve reads: that is node/blockd.
package blockapi
