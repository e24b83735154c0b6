// Command pando-lab measures Pando on this computer, beside what else is in use. It belongs to the repository, not to
// an installation, and calls the programs that stand beside it.
//
//	pando-lab demo [--keep]   a server, three machines without disks, a timeline and a proof of each
//	pando-lab stop            ends what `demo --keep` left running, or what a killed demo left behind
//	pando-lab storm           many nodes boot at once on slow links: how long that takes, and what the server sends
//	pando-lab alone           one machine by itself, by Pando and in other ways
//	pando-lab update          bytes of new versions of an image
//	pando-lab build           time of a build
//	pando-lab k               bytes of kernel and initramfs
//
// Each prints a table and leaves one JSON file below its --dir. This package only wires: the work is in internal/lab.
package main
