// Package build makes image versions: it is the pipeline from a recipe, a source or a directory to a signed version.
// It calls the rooms that do the steps: make a tree (recipe, base, source, kernel), check it (check), write and store
// the root file system (rootfs), pack the drivers (initramfs). Then it signs the manifest. Change makes a version by a
// command in a copy of another version; Extend makes an extension of a version (extension, packer).
//
// It owns the order of the steps, the work directory of a build, and the manifest. The command line and the lab call
// it. An interrupted build resumes with the finished steps.
//
// The same tree gives the same manifest, byte for byte, on any machine and day; only the provenance differs. The
// package must never publish a version that lacks an object, and never change a directory that it is given as a tree.
package build
