// Command pando-init is Pando's program on a node: init of the initramfs, the daemons behind the root's block device,
// and the agent. argv[0], and whether it is PID 1, select the role (package node).
//
// It owns nothing: the work is in internal/node. The initramfs and the units of a node start it. It must never grow
// without need, because it stays in the node's memory; a test bounds its size and its imports.
package main
