// Package netboot decides how a machine without an operating system gets its first programs: which boot
// file a firmware is given, and which iPXE script a node is given. It does no I/O and reads no clock, and it
// knows nothing of DHCP's bytes, so that the same decisions serve DHCPv4, proxyDHCP, HTTP and later DHCPv6.
//
// The words. A client is what asks: a firmware's own PXE, UEFI HTTP Boot, iPXE, the node's /init, or
// anything else. Its architecture is the number firmware sends (RFC 4578 section 2.1, RFC 5970 section 3.3).
// A loader is the iPXE build that firmware of one class can start. The script is what iPXE runs: Chain is
// the same for everybody and makes iPXE tell who it is; Script is made for one node.
package netboot
