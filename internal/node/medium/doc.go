// Package medium keeps kernel and initramfs on a node's boot medium in step with what the node runs, and makes a
// disk a boot medium.
//
// It owns when a medium is looked at. The agent calls it. It must not write anywhere but to the medium's slots,
// unless a person named the disk.
package medium
