// Package bootpack describes boot packs: the blocks that boots of one image version read, in the order in which they
// read them, grouped into pieces that are ordinary objects. A Map lists which blocks are in which piece; it is signed
// by a pack key.
//
// It owns the format of the map (docs/formats/pack.md) and of the records beside a manifest. The builder and the
// server make maps, block devices read them. It must never read a file or a clock.
package bootpack
