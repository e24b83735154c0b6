// Package configfile renders the config files that make a booted image one particular node: its names, its
// identity, who may log in, and its resolver. Everything else in the image is the same for all nodes.
//
// A file is the same bytes in every boot as long as what it is made of is the same.
package configfile
