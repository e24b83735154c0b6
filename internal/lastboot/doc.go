// Package lastboot keeps on the node's cache disk what a boot was told to run, so that a machine that starts from a
// boot medium can boot it again without a server.
//
// It owns the records of the cache that hold boots. Init keeps and picks boots, the agent notes that one came up.
// It must not believe what lies on the disk: assignment and manifest are signed.
package lastboot
