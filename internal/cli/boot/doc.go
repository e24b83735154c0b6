// Package boot has the command `boot`: the boots of nodes, their timelines, their history, and recordings of what
// they read.
//
// It calls the HTTP API and prints tables, timelines and JSON. The package cli adds it to the tree. It must never
// print what a node said without removing what could steer a terminal.
package boot
