// Package image has the command `image`: build, capture, extend, show, compare, copy and delete images.
//
// A build runs in this process, on the server's machine, and writes into its store; then the server registers the
// version. Every other verb calls the HTTP API. The package cli adds the command to the tree. It must never write to a
// store that is not locked.
package image
