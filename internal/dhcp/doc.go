// Package dhcp answers DHCP, as the network's server or as a proxyDHCP server beside another one, so that firmware
// finds its boot file and nodes get an address. Answer decides; Server is the loop around it.
//
// It owns the sockets and the address probes. Package server/boots calls it. It must never give an address that a probe
// or another lease says is in use.
//
// RFC numbers in comments: 2131 (DHCP), 2132 (options), 3046 (relay agent information), 3396 (long options), 4578 (PXE
// options), 5970 and UEFI 2.10 section 24.7 (HTTP Boot). PXE is Intel's specification 2.1.
package dhcp
