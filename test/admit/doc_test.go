// Package admit tests how a server admits machines that load kernel and initramfs, with a real server and links
// that are limited as those of a site are. A loader is a client in a network namespace of its own that does what
// its iPXE scripts say, sleeps included, until it has K; the server's turns decide when. The link is the server's,
// shaped by a token bucket below which is the queue that Linux gives a NIC. One test is of a server whose disk is full.
package admit
