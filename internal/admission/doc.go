// Package admission is the queue of nodes that want to load kernel and initrd. It admits as many at once as fill the
// server's link; the others wait for their turn.
//
// It owns the queue, in memory: after a restart the nodes request again. The server's rooms that send kernel and
// initrd call it. It must never send anything itself, and never hold a machine longer than its firmware waits.
package admission
