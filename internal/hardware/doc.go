// Package hardware reads what a machine says of itself in sysfs and proc: maker, serial, memory, PCI devices.
//
// It owns nothing. Registration, the choice of drivers and the bounds of what is kept in memory use it. It must not
// open devices.
package hardware
