// Package status has the command `status`: the state of the whole site on one screen.
//
// It calls the HTTP API once and prints problems first, and on a terminal no more lines than fit. The package cli adds
// the command to the tree. It must never print text from a node without removing terminal control characters.
package status
