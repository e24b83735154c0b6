// Package nodestate renders what a node needs to keep directories across boots, and to mount what its group says:
// units for systemd and a script, which the node finds in /run. It decides nothing that depends on the time, and
// touches no files.
//
// The image's systemd does the work, so that it is ordered before what needs it, and seen where people look for it.
package nodestate
