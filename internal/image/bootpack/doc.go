// Package bootpack describes boot packs: the blocks that boots of one image version read, in the order in which
// they read them, in pieces that are ordinary objects. A Map says which blocks are in which piece; it is signed by
// a pack key.
//
// It owns the format of the map (docs/formats/pack.md) and of the records beside a manifest. The builder and the
// server make maps, block devices read by them. It must never read a file or a clock: it is pure.
package bootpack
