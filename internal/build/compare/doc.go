// Package compare says how two versions differ: which files, and how many bytes a node that has one fetches for the
// other.
//
// It owns no state. The server calls it. It reads indexes, inodes and directories, and of files only what does not
// lie in the same chunk at the same place. It must never count a stored byte twice.
package compare
