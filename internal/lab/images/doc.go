// Package images measures what an image costs to make: the time of a build beside other programs, and the bytes of
// kernel and initramfs.
//
// It owns build.json and k.json. cmd/pando-lab calls it. It must never change a tree, except for the one file that
// makes a second build necessary.
package images
