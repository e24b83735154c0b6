// Package testkit runs real machines in their own networks, for the real-boot tests and the demo. A Net is a network
// namespace; a Machine is a QEMU guest without a disk that boots from it; a Guest is an ssh session into a machine.
//
// It owns what it starts: each has a Close that also works after a failure half-way. Names are unique per process, so
// several users do not collide. All of it needs root. It must never import package testing, because the demo uses it
// too.
package testkit
