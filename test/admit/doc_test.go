// Package admit tests how a server admits machines that load kernel and initramfs (K), with a real server and limited
// links. A loader is a client in its own network namespace that obeys its iPXE scripts, including sleeps, until it has
// K. The server's link is shaped by a token bucket, with Linux's default queue of a NIC before it. One test is about a
// server whose disk is full.
package admit
