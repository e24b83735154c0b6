// Package imagefs reads the root file systems of image versions, EROFS and squashfs, and writes squashfs.
//
// It owns the knowledge of both formats. Open reads a version's root from the store through its index. ReadMap lists
// which bytes of the root belong to which file. OpenTree reads files. Extract writes all of it into a file. The rooms
// of build, the server and the command line call it. It must never trust what it reads (a damaged file system gives an
// error, not a panic or an endless loop), and never change a store.
package imagefs
