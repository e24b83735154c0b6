// Package extend changes which extensions are mounted over the root of a running node.
//
// It owns the state of the node's extensions. The agent calls it when the server reports a change. If a change fails
// it must restore the extensions that were there.
package extend
