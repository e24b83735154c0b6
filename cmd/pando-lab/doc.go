// Command pando-lab measures Pando on this computer, side by side with other systems. It belongs to the repository and
// is not installed. It runs the programs pando and pando-init from its own directory.
//
//	pando-lab demo [--keep]   a server, three machines without disks, a timeline and a proof of each
//	pando-lab stop            ends what `demo --keep` left running, or what a killed demo left behind
//	pando-lab storm           many nodes boot at once on slow links: how long that takes, and what the server sends
//	pando-lab alone           one machine by itself, by Pando and in other ways
//	pando-lab update          bytes of new versions of an image
//	pando-lab build           time of a build
//	pando-lab k               bytes of kernel and initramfs
//
// Each prints a table and writes one JSON file below its --dir. This package only wires: the work is in internal/lab.
package main
