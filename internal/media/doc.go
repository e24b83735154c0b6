// Package media lays out boot media: disks and USB sticks that start a machine without PXE, and one whose servers
// are all dead.
//
// A medium has a partition table (GPT), a place for the BIOS boot loader, an EFI system partition, two slots, and what
// is left for the node's cache. The loader is GRUB. It starts iPXE, which asks the servers as a machine with PXE does;
// when none answers, GRUB starts kernel+initrd from a slot. There are two slots so that one is whole at any moment:
// kernel+initrd are renewed in the one that is not used, and one sector, written last, makes it the newer.
//
// All of it is pure: a layout becomes a list of writes, and who has the disk carries them out. docs/formats/medium.md
// has the bytes.
package media
