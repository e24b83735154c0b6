// Package ext4 makes empty ext4 file systems, on disks of nodes whose image has no mkfs.ext4.
//
// It owns the layout. node/writelayer calls it. It must never write outside of the device that it is given, or decide
// which device that is.
//
// A device is divided into groups of 32,768 blocks of 4 KiB. A group has a bitmap of its blocks, a bitmap of its
// inodes, and a table of inodes. The first group also has the super block, the descriptors of all groups, two
// directories (the root and lost+found), and the journal if there is one. An empty group is marked as unused in its
// descriptor, which has a checksum (gdt_csum); then the kernel does not read its bitmaps and table, and they need not
// be written. There are no copies of super block and descriptors (sparse_super2). A device of any size needs only some
// kilobytes of writes.
package ext4
