// Package packer makes the boot pack of a version: the blocks that boots read, in the order in which they read them.
//
// A Recording is what one boot read. Merge makes one order of several recordings. Make cuts an order into pieces,
// stores them and signs their map. CarryOver translates an order from one version to another, by the file maps of both
// root file systems.
//
// It owns no state; pieces are objects of the store, whose lock it holds for one batch at a time. The server calls it,
// and the pipeline for extensions. It must never change the version, and never change a pack that nodes have: a new
// pack gets the next sequence number.
package packer
