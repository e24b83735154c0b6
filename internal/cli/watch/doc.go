// Package watch has the commands `watch` and `node watch`: a live table of nodes, or their events as lines.
//
// It follows the event stream of the HTTP API and reads the list of nodes at intervals. The package cli adds the
// commands to the tree. It must never draw a line that is wider than the terminal.
package watch
