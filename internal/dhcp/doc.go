// Package dhcp answers DHCP, as the network's server or as a proxyDHCP server beside another one, so that firmware
// finds its boot file and nodes get an address.
//
// Answer decides whether and how a packet is answered. It is a pure function of the packet, a View (what was looked up
// for it) and the time. Server is the loop around it: sockets, look-ups, address probes.
//
// A lease is an address given to a MAC; it is durable before it is acknowledged. A server gives leases. A proxy (PXE
// 2.1) gives boot files and leaves addresses to the site's own server. While another server answers its questions, a
// server gives no new addresses; it still answers renewals, and gives boot files as a proxy. A probe checks by ARP
// whether an address is in use. DiscoverServers looks for other DHCP servers.
//
// Package server/boots calls it. It must never give an address that a probe or another lease says is in use.
//
// RFC numbers in comments: 2131 (DHCP), 2132 (options), 3046 (relay agent information), 3396 (long options), 4578 (PXE
// options), 5970 and UEFI 2.10 section 24.7 (HTTP Boot). PXE is Intel's specification 2.1.
package dhcp
