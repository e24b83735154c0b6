// Package ext4 makes empty ext4 file systems, on disks of nodes whose image has no mkfs.ext4.
//
// It owns the layout. node/writelayer calls it. It must never write outside of the device that it is given, or decide
// which device that is.
//
// A device is divided into groups of 32,768 blocks of 4 KiB. An empty group is marked as unused in its descriptor,
// which has a checksum (gdt_csum); then the kernel does not read its bitmaps and inode table, and they need not be
// written. So a device of any size needs only some kilobytes of writes.
package ext4
