// Package loginfiles keeps in memory what an administrator's login reads, on the console and by ssh, with the programs
// that one needs to look around and to reboot. So a node lets people in while all its servers are away.
//
// It owns the list of names and the bound of the memory. The agent begins it once, after the boot. It must never read
// what it has mapped: only the kernel may wait for the root.
package loginfiles
