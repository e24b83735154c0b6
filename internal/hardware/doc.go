// Package hardware reads a machine's description in sysfs and proc: maker, serial, memory, PCI devices.
//
// It owns no state. Registration, the choice of drivers and the limits on memory use it.
//
// It must never open a device: it reads only text files of the kernel.
package hardware
