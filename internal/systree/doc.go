// Package systree reads the root file system of an operating system that lies in a directory: for which architecture
// it is, which packages are installed, what its files' attributes are. It also takes the day of an installation out
// of it.
//
// It owns no state. The rooms of build and imagefs call it. Such a tree is not trusted: links are followed with the
// tree as "/", and it must never read the machine's own files in the place of the tree's, nor run what is in it.
package systree
