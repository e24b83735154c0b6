// Package initrd is PID 1 of the initramfs, until the image's init replaces it, and the next boot of a node whose
// kernel goes on.
//
// A boot is a list of phases. The name of a phase is its stage on the timeline. A phase that fails says what failed
// and what to do, and is tried again; a boot that is stuck reboots after a time. Package node runs it. It must not
// offer a shell, and must not mount a root whose signature was not checked.
package initrd
