// Package rivals boots the same root in other ways that people use: NFS, NBD, a squashfs over NBD, and BitTorrent. It
// runs their daemons on the links of a storm, and makes initramfs for emulated machines.
//
// It owns how each way is served and attached. The wiring of the lab passes the ways to the measurements. It must never
// depend on which measurement runs.
package rivals
