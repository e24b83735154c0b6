// Package node has the command `node`: machines, what they run, what they may do, and orders to them.
//
// Each verb turns flags into calls of the HTTP API and prints the answer. The package cli adds it to the tree, with
// the verbs whose work is that of other commands. It must never change nodes that the node set did not name.
package node
