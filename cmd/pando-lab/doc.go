// Command pando-lab boots real, emulated machines on this computer. It belongs to the repository, not to an
// installation, and calls the programs that stand beside it.
//
//	pando-lab demo [--keep]   a server, three machines without disks, a timeline and a proof of each
//	pando-lab stop            ends what `demo --keep` left running, or what a killed demo left behind
//
// Everything is below one directory, build/demo unless --dir says otherwise: data/ is the server's (keys, store with the
// built image, registry) and is used again by the next run, the image as long as it would be made of the same recipe in
// the same way; run/ has consoles and logs of the last run; state.json says what runs at this moment. The network is a
// namespace of its own and has no way out.
package main
