// Package volume keeps a block device for a node: a qcow2 file, which is thin and may have snapshots.
// qemu-storage-daemon serves it over NBD; this package decides which node may connect to which.
//
// A volume is attached while a node is connected to it. An attached volume has its own process, so that a damaged file
// is one node's trouble. The last connection with the right of that node wins, and the previous one is closed.
//
// It owns the files and their processes. The server's room volumes calls it. It must never attach a volume to two
// connections at a time.
package volume
