// Package disk lists the disks of a node, describes their content, finds the node's cache disk, and prepares a disk as
// a cache.
//
// It owns no state. Init finds the cache with it; the agent lists disks and prepares one. It must not write to a disk
// that nobody named.
package disk
