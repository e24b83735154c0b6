// Command pando-lab boots real, emulated machines on this computer. It belongs to the repository, not to an
// installation, and calls the programs that stand beside it.
//
//	pando-lab demo [--keep]   a server, three machines without disks, a timeline and a proof of each
//	pando-lab stop            ends what `demo --keep` left running, or what a killed demo left behind
//	pando-lab alone           one machine by itself, by Pando and in other ways
//	pando-lab storm           many nodes boot at once on slow links: how long that takes, and what the server sends
//
// A storm is a real `pando serve`, a network namespace with a link of its own for each node (testkit.Star), and in
// each of them a real block daemon, whose device is not the kernel's: this program makes the reads that a real boot
// was recorded to make, with its pauses, and compares every byte. The links are slow enough for one machine to play
// all nodes; results are in units of W/(eta B), the time in which one link carries one boot set, and do not depend
// on the rate. A run in which the machine was more than 70 % busy is discarded, and made again: slower, if that was
// the run itself. Beside the steps of Pando there are rivals on the same links, each by the programs that people
// use; with more nodes than they were measured with they are modelled, and marked so. --fault lets something go
// wrong in mid-storm; a node that does not boot then, or should have it on its timeline and has not, is kept with
// its run, and the command fails at its end. --guests boots emulated machines instead of daemons, with Pando and
// with what the kernel has drivers for, and --page writes the page of results, its diagrams and its raw data.
//
// Alone is one emulated machine by itself on a link that limits nothing, booted in turns by Pando, by NBD and NFS
// 4.1 as the kernel has them, and from a disk. The rivals' initramfs is init.sh, as little as it takes.
//
// A demo is below one directory, build/demo unless --dir says otherwise: data/ is the server's (keys, store with
// the built image, registry) and is used again by the next run, the image as long as it would be made of the same
// recipe in the same way; run/ has consoles and logs of the last run; state.json says what runs at this moment. The
// network is a namespace of its own and has no way out.
package main
