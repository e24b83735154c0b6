// Package extend changes which extensions are laid over the root of a running node.
//
// It owns the state of the node's extensions. The agent calls it when the server says that they changed. It must
// not leave the root without those that were there when a change fails.
package extend
