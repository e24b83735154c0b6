// Package netboot decides how a machine without an operating system gets its first programs: which boot file its
// firmware gets, and which iPXE script.
//
// A client is what sends the request: PXE firmware, UEFI HTTP Boot, iPXE, the node's /init, or something else. Its
// architecture is the number that firmware sends (RFC 4578 section 2.1, RFC 5970 section 3.3). A loader is the iPXE
// build that firmware of one class can start. Of the scripts that iPXE runs, Chain is the same for all machines and
// makes iPXE send its identity; Script is made for one node.
//
// It owns no state but the queue's. The server's packages that answer firmware call it. It must never do I/O, read a
// clock or parse DHCP, so that the same decisions serve DHCPv4, proxyDHCP and HTTP.
package netboot
