// Package rivals has the other ways to the same root, by programs that people use: NFS, NBD, a squashfs over NBD and
// BitTorrent, as daemons on the links of a storm and as initramfs of emulated machines.
//
// It owns how each is served and attached. The wiring of the lab gives them to the storm and to machines alone.
// It must never know who measures them.
package rivals
