// Package link has the node's network adapters: which there are, whether they have a link, their address by DHCP, and
// the kernel's addresses and routes.
//
// It owns no lasting state. Init gets the address, the agent renews the lease, and the block daemon restores
// addresses that something removed. It must not decide when any of these happens.
package link
