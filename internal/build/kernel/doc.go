// Package kernel finds the kernel of a tree, checks it, reads it as nodes get it, and copies one into another tree.
//
// It owns no state. The pipeline (internal/build) calls it. A tree's kernel has an image, in /boot or beside its
// modules, and modules. It must never follow a link out of a tree, nor take a file for a kernel that firmware would
// not start.
package kernel
