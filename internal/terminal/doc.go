// Package terminal draws on terminals: lines that fit, a screen that is redrawn, and a progress bar. If the output is
// no terminal, progress is plain lines.
//
// It owns no state but what is drawn. The commands call it. It must never write a terminal control character that came
// from a node.
package terminal
