// Package ext4 makes empty ext4 file systems, on devices of nodes whose images have no program for it. It knows
// nothing of what they are for.
//
// A device is divided into groups of 32,768 blocks of 4 KiB. Each has a bitmap of its blocks, one of its inodes,
// and a table of inodes; the first has also the super block, the descriptors of all groups, two directories (the
// root and lost+found), and the journal if there is one. A group that nothing is in is marked as unused in its
// descriptor, which has a checksum (gdt_csum): nobody reads its bitmaps and its table, so they are not written. So
// some kilobytes are enough for a device of any size. There are no copies of super block and descriptors
// (sparse_super2).
package ext4
