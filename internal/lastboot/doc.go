// Package lastboot keeps on the node's cache disk what a boot was told to run, so that a machine that starts from a
// boot medium can boot it again without a server.
//
// It owns the records of the cache that describe boots. Init writes and chooses boots; the agent marks a boot that
// came up. It must not trust the disk: it checks the signatures of assignment and manifest.
package lastboot
