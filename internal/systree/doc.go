// Package systree reads an operating system's root in a directory: its architecture, its installed packages, the
// attributes of its files. It also removes the date of an installation from it.
//
// It owns no state. The rooms of build and imagefs call it. It must not trust such a tree: links are followed with the
// tree as "/". It must never read the machine's own files in place of the tree's, and never run a program of the tree.
package systree
