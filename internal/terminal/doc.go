// Package terminal draws on terminals: lines that fit, a screen that is drawn anew, and a bar of progress.
//
// Where the output is no terminal, progress is plain lines. The commands call it. It must never write a character
// that a node said and that could steer a terminal.
package terminal
