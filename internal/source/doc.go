// Package source makes trees: it fills a directory with a root file system that came from somewhere else, and says what
// that was. What becomes of the tree is package build's.
//
// The words. A source is where a tree comes from. Its key names it, whatever it has in it today; its state says what it
// has in it now, as far as that can be known without reading all of it. Filling puts the tree into a place: a root
// directory, and another that keeps what an interruption should not cost, such as downloads. Made is what is known of
// a tree when it is whole.
//
// A tree comes out of archives by the unpacker, and archives are written by strangers: every name is looked up inside
// of the root, by the kernel, links and all; what exists is replaced, never written through; a budget bounds bytes and
// files. A layer is an archive that changes the tree below it: a whiteout in it takes a file away, an opaque directory
// hides what it had.
package source
