// Package node has the command `node`: machines, what they run, their settings, and commands to them.
//
// Each verb turns flags into calls of the HTTP API and prints the reply. The package cli adds the command to the tree,
// together with verbs that belong to other packages. It must never change nodes that the node set did not name.
package node
