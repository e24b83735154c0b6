// Package command runs the external programs that building an image needs, such as mkfs.erofs and mmdebstrap.
//
// A Command runs in its own process group and, as root, in its own mount namespace, so that no process and no mount of
// it outlives the build. Its error has the end of the program's output. CanRun reports whether this machine runs
// programs of another architecture. The packages of build call it. It must never leave a process behind.
package command
