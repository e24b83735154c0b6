// Package admission is the queue of nodes that want to load kernel and initrd. It admits as many at once as fill the
// server's link; the others wait.
//
// It owns the queue, in memory: after a restart the nodes request again. The parts of the server that send kernel and
// initrd call it. It must never send anything itself, and never hold a request longer than the machine's firmware
// waits.
package admission
