// Package disk finds, describes and prepares the disks of a node: which there are, what is on them, which one is the
// node's cache.
//
// It owns nothing. Init looks for the cache, the agent lists disks and prepares one. It must not write to a disk that
// nobody named.
package disk
