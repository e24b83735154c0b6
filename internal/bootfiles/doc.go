// Package bootfiles fetches and verifies the first files of a boot: the manifest of a version, its signature, and the
// map of its boot pack. They come from peers or servers.
//
// It owns no state. Init calls it for the root, and extensions call it for theirs. It must not return a byte that is
// not verified.
package bootfiles
