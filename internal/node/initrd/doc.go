// Package initrd is PID 1 of the initramfs until the image's init replaces it. It also prepares the next boot of a
// running node whose kernel stays (soft reboot).
//
// A boot is a list of phases. The name of a phase is its stage on the timeline. A phase that fails reports what failed
// and what to do, and is tried again; a boot that makes no progress reboots after a time.
//
// It owns the machine until the image's init runs. Package node runs it. It must not offer a shell, and must not mount
// a root whose signature was not checked.
package initrd
