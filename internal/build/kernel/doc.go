// Package kernel finds the kernel of a tree, checks it, reads it in the form that nodes load, and copies it into
// another tree.
//
// It owns no state. The pipeline (internal/build) calls it. A tree's kernel is an image, in /boot or beside its
// modules, and the modules. It must never follow a link out of a tree, and never take a file for a kernel that
// firmware cannot start.
package kernel
