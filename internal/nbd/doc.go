// Package nbd speaks the Network Block Device protocol from the side that has the bytes, and hands the other
// side of such a connection to the Linux kernel.
//
// A connection has two parts: the handshake, in which a client picks an export by name, and the transmission, in
// which it sends requests that each carry a handle and are answered in any order. The kernel's driver does no
// handshake: whoever configures it by generic netlink says size and flags, and the socket starts with the
// transmission (Server.ServeKernel). Enter and Client are the client's side, for servers of other programs.
//
// Devices are read-only. Requests that would change bytes are refused with EPERM and leave the connection
// usable. A client that breaks the framing is cut off, because what follows could not be told apart from
// data. No number that a client sends makes the server allocate before it is checked against a limit.
//
// The protocol is doc/proto.md of the nbd project; names of constants follow it without the NBD_ prefix.
package nbd
