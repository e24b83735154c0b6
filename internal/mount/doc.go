// Package mount has what changes a root file system where it lies: a file system in a file, an overlay that takes
// what is written, and commands that run inside, in namespaces of their own. It knows nothing of images, versions
// or stores.
//
// Whatever is mounted is mounted for this process and its children alone once Private was called; if the process
// dies, however it dies, the kernel takes the mounts away. A Stack takes them away in time.
package mount
