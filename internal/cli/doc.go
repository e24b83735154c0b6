// Package cli is the command tree of the pando program.
//
// It wires: it makes each command, gives the verbs that two nouns share to both, and turns an error into its text
// and exit code. Each noun is a package below it, and cmd/pando calls Run. It must never do a command's work
// itself.
package cli
