// Package mount changes a root file system in place: it mounts a file system from a file, puts an overlay on it that
// takes the writes, and runs commands inside, in their own namespaces.
//
// It owns the mounts of a Stack until they are closed. The packages of build call it. After Private, mounts exist for
// this process and its children only, and the kernel removes them when the process dies. It must know nothing of
// images, versions or stores.
package mount
