// Package compare reports how two versions differ: which files, and how many bytes a node that has one version fetches
// for the other.
//
// It owns no state. The server calls it. It compares indexes, inodes and directories first, and reads only those files
// that do not lie in the same chunk at the same place. It must never count a stored byte twice.
package compare
