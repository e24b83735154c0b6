// Package kmod loads the kernel modules of the initramfs that match the machine's devices, as modprobe does, and reads
// the kernel's command line.
//
// It owns the index of the driver sets. Init uses it, and the kernel runs it by the name modprobe. It must not load a
// module that the command line forbids.
package kmod
