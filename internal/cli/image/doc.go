// Package image has the command `image`: build, capture, extend, show, compare, copy and delete images.
//
// Builds run in this process, on the machine of the server, into its store; the server then makes the version
// known. All else calls the HTTP API. The package cli adds it to the tree. It must never write to a store that is
// not locked.
package image
