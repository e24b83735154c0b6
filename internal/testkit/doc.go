// Package testkit runs real machines in their own networks, for the real-boot tests and the demo.
//
// A Net is a network namespace with one bridge, cut off from every other network. Machines attach to the bridge with
// tap devices. Net.Command runs a child process in it, and Net.Dial connects from this process. A Machine is a QEMU
// guest without a disk that boots from the network: by BIOS with the iPXE in the ROM of its network card, or by UEFI
// with OVMF's own PXE and no card ROM. Console follows the file of its serial console. A Guest is an ssh session into
// it, with its host key checked.
//
// It owns what it starts: each has a Close that also works after a failure half-way. Names are unique per process, so
// several users do not collide. All of it needs root. It must never import package testing, because the demo uses it
// too.
package testkit
