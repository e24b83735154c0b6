// Package rootfs makes a root file system of a tree and stores it: a Scan looks through the tree, a Writer writes the
// raw image (EROFS by mkfs.erofs, or squashfs), a Storer cuts that into chunks and stores them with their index.
//
// It owns the raw image in the work directory. The pipeline (internal/build) calls it. The same tree gives the same
// bytes on any machine and day: nothing of the clock, the order of names in a directory or the umask goes into them.
// It must never use a raw image of a tree that changed meanwhile.
package rootfs
