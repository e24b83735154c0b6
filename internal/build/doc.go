// Package build makes image versions. It is the pipeline from a recipe, a source or a directory to a signed version,
// and wires the rooms that do the steps: a tree is made (recipe, base, source, kernel), checked (check), written as a
// root file system and stored (rootfs), its drivers are packed (initramfs), and a signed manifest names it all.
// Change makes a version by a command in a copy of another one, Extend what is laid over one (extension, packer).
//
// It owns the order of the steps, the work directory of a build and the manifest. The command line and the lab call
// it. What a step has made is used again when an interrupted build is resumed.
//
// The same tree gives the same manifest, byte for byte: nothing of the clock, the machine, the order of names in a
// directory or the umask goes into it; what differs from build to build is the provenance. It must never publish a
// version of which an object is missing, nor change the tree that it is given as a directory.
package build
