// Package boot is the node's side of Pando: what runs on a machine between the kernel and its image, and
// what stays beside the image afterwards.
//
// The words. Init is PID 1 of the initramfs. It runs a list of phases; a phase is a named step, and its name
// is the stage that the server's timeline shows. A phase that fails says on the console and to the server
// what failed, what was tried and what to do, and is tried again after a back-off; a boot that is stuck
// reboots after a configurable time. There is no shell to fall into.
//
// Two daemons answer the kernel's reads of the root (see blockapi.go): the supervisor and the block daemon.
// They outlive init, which ends by handing the machine to the image's own init. The agent is a unit of that
// system: it reports, renews the lease and may be restarted at any time. A mark is a moment that something
// in the image names with `pando-init mark NAME`; the agent reports it.
//
// All four are one program, told apart by the name that it is called by (see Main). Everything of Pando on a
// running node is in /run/pando.
package node
