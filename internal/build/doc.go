// Package build makes image versions: a recipe or a directory becomes an EROFS root file system, that becomes
// chunks, objects and an index, and a signed manifest names it all. It also makes the parts of K that do not come
// from the distribution: driver, agent and trust cpios.
//
// The words. A recipe says what to install. The tree is the directory in which it is installed, and what --from-dir
// gives. The raw image is the EROFS file made of it; it is cut up and never kept. A step is a part of a build (see
// Steps); what it has made is used again when the build is resumed. A build's unfinished work lies in a work
// directory that is named by what is built, so the next build of the same thing continues it.
//
// A recording is what one boot of a version read. Merge makes an order of some recordings: blocks, in the order in
// which they shall come. Pack makes a boot pack of an order: pieces, map, signature. CarryOver translates an order
// from one version to another by the maps of their root file systems.
//
// The same tree gives the same manifest, byte for byte: nothing of the clock, the machine, the order of names in a
// directory or the umask goes into it. What differs from build to build is the provenance.
package build
