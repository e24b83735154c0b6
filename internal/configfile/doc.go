// Package configfile renders the config files that make a booted image one particular node: names, identity,
// authorized keys, and resolver. All else in the image is the same for all nodes.
//
// It owns no state. The server renders files for a boot with it. It must never use the time or chance: the same input
// gives the same bytes in every boot.
package configfile
