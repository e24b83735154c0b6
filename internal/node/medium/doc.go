// Package medium keeps kernel and initramfs on a node's boot medium equal to what the node runs, and makes a disk a
// boot medium.
//
// It owns the schedule of these checks. The agent calls it. It must not write outside of the medium's slots, unless a
// person named the disk.
package medium
