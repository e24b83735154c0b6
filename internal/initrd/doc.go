// Package initrd has the parts of the initramfs that nodes load: the node's program for each architecture, drivers of
// disks, and how the parts are joined to one file.
//
// It owns the compressed programs and drivers, in memory and in the data directory. Packages that send an initramfs or
// write boot media call it. It must never put a token into a part that is shared.
package initrd
