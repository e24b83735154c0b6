// Package volume keeps a block device for each node that wants one: a qcow2 file, which is thin and may have
// snapshots, and which qemu-storage-daemon serves by NBD. The engine is QEMU's; what is here decides who may have
// which, one at a time.
//
// A volume is attached while a node is connected to it. Each has a process of its own meanwhile, so that a damaged
// file is one node's trouble. Whoever connects last with the right of that node has it, and who had it before is
// cut off.
package volume
