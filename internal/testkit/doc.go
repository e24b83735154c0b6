// Package testkit runs real machines on networks of their own: what the real-boot tests and the demo are made of.
//
// A Net is a network namespace with one bridge in it, cut off from every other network. Machines plug into the
// bridge with tap devices. Programs run in it as child processes (Net.Command), and this process reaches it by
// dialing through it (Net.Dial). A Machine is a QEMU guest without a disk that boots from the network: BIOS by the
// iPXE in its network card's ROM, or UEFI by OVMF's own PXE with the card's ROM taken away. Its serial console
// is a file that Console follows. A Guest is an ssh session into it, through the Net, with its host key checked.
//
// Nothing here imports package testing: the demo is built from the same parts. Everything that is started has a
// Close that also works after a failure half-way; names are unique per process, so that several users of the
// kit do not meet. All of it needs root.
package testkit
