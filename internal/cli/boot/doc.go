// Package boot has the command `boot`: the boots of nodes, their timelines, their history, and recordings of what they
// read.
//
// It calls the HTTP API and prints tables, timelines and JSON. The package cli adds the command to the tree. It must
// never print text from a node without removing terminal control characters.
package boot
