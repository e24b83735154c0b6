// Package ship copies versions between places that keep them: servers and directories.
//
// Only what is missing travels, and all of it is verified where it arrives: objects by their names, manifests by
// signatures of keys that the receiver trusts. What arrived stays when a copy is broken off, and the next one goes
// on after it.
package ship
