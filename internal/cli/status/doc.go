// Package status has the command `status`: the state of the whole site on one screen.
//
// It calls the HTTP API once and prints what wants attention first; on a terminal as much as fits. The package cli
// adds it to the tree. It must never print what a node said without removing what could steer a terminal.
package status
