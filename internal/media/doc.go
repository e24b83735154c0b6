// Package media lays out boot media: disks and USB sticks for machines that cannot boot by PXE, or whose servers are
// all down.
//
// A medium has a partition table (GPT), a BIOS boot partition, an EFI system partition, two slots, and the rest for
// the node's cache. The boot loader is GRUB. It starts iPXE, which contacts the servers as a PXE machine does. If no
// server answers, GRUB starts kernel+initrd from a slot. There are two slots, so that one is always complete: an
// update writes the slot that is not in use, and one sector, written last, makes it current.
//
// It owns the layout (docs/formats/medium.md). The server makes images of media with it, and nodes update theirs. It
// must never do I/O: a layout becomes a list of writes, which the caller performs.
package media
