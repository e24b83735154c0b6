// Package command runs the foreign programs that building an image needs, such as mkfs.erofs and mmdebstrap.
//
// A Command runs in a process group and, as root, in a mount namespace of its own: nothing of it outlives the build,
// and what an installer mounts is never seen outside. Its error has the end of the program's output. CanRun tells
// whether this machine runs programs of another architecture. The rooms of build call it. It must never leave a
// process behind.
package command
