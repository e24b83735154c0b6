// Package rootfs makes a root file system of a tree and stores it. A Scan lists the tree, a Writer writes the raw
// image (EROFS by mkfs.erofs, or squashfs), and a Storer cuts the image into chunks and stores them with their index.
//
// It owns the raw image in the work directory. The pipeline (internal/build) calls it. The same tree gives the same
// bytes on any machine and day. It must never use a raw image of a tree that changed while the image was written.
package rootfs
