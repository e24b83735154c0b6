// Package link has the node's network adapters: which there are, whether they have a link, their address by DHCP, and
// what the kernel is told of addresses and routes.
//
// It owns nothing that lasts. Init gets the address, the agent renews the lease, the block daemon restores what is
// taken away. It must not decide when.
package link
