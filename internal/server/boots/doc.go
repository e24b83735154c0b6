// Package boots answers machines from their first DHCP packet until they are registered: leases, boot files, the iPXE
// script, kernel and initramfs, tokens, and the signed assignment.
//
// It owns the DHCP exchanges that it has seen, which tokens are bound to. The server's wiring calls it for DHCP
// packets, TFTP transfers and the HTTP requests of booting machines. It must never give a token to an address that no
// exchange or ARP entry ties to the machine's MAC, and never delay a DHCP reply by a write to history.
package boots
