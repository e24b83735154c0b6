// Package exitcode has the exit codes of the pando program, and the errors that carry a code or a hint.
//
// It owns the codes, which are part of the interface: scripts branch on them. The commands make such errors, and the
// package cli turns them into text and a code. It must never end the process.
package exitcode
