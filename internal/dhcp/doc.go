// Package dhcp answers DHCP, as the network's server or beside it as proxyDHCP, so that firmware finds its
// boot file and nodes find an address.
//
// The words. A lease is an address given to a MAC; it is durable before it is acknowledged. A server gives
// leases; a proxy (PXE 2.1) gives boot files and leaves addresses to the site's own server. Whether an answer
// is given, and which, is decided by Answer, a pure function of the packet, a View (what was looked up for
// it) and the time; Server is the thin loop around it: sockets, look-ups, probes. A probe asks the segment
// whether somebody already uses an address. DiscoverServers asks the segment for other DHCP servers. Because
// of one that answers a server stops giving addresses, until it is silent: renewals are still answered, and boot
// files are still given, as a proxy.
//
// RFC numbers in comments: 2131 (DHCP), 2132 (options), 3046 (relay agent information), 3396 (long options),
// 4578 (PXE options), 5970 and UEFI 2.10 section 24.7 (HTTP Boot). PXE is Intel's specification 2.1.
package dhcp
