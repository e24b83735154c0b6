// Package imagefs reads the root file systems of image versions, EROFS and squashfs, and writes squashfs.
//
// It owns the knowledge of both formats. Open reads a version's root from the store through its index; ReadMap says
// what lies where in it; OpenTree reads its files; Extract writes all of it into a file. The rooms of build, the
// server and the command line call it. It believes nothing that it reads: a damaged file system gives an error, never
// a panic or a walk without end. It must never change what is in a store.
package imagefs
