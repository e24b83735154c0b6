// Package nbd serves the Network Block Device protocol, and connects a socket to the Linux kernel's NBD driver.
//
// It owns the connection. The block daemon serves with it; volumes connect with it. Devices are read-only here: a
// request that writes is refused with EPERM. A client that breaks the framing is disconnected.
//
// It must never allocate by a number from a client before that number is checked against a limit. The protocol is
// doc/proto.md of the nbd project; constants have its names without NBD_.
package nbd
