// Package packer makes the boot pack of a version: what boots read of it, in the order in which they read it.
//
// The words. A recording is what one boot read. Merge makes an order of some recordings: blocks, in the order in
// which they shall come. Make cuts an order into pieces, stores them and signs their map. CarryOver translates an
// order from one version to another, by the maps of both root file systems. The server calls it, and the pipeline for
// extensions.
//
// It owns no state; pieces are objects of the store, whose lock it holds for one batch at a time. It must never
// change the version, nor a pack that nodes have: a new one gets the next sequence number.
package packer
