// Package nodeapi answers nodes that run: reports with events and status, commands, config files, extensions, and
// what the next boot will run.
//
// It owns what it last told about full write layers, and nothing else. The server's wiring routes the requests
// below /v1/node/ to it. It must never take what a node says of another node's boot, nor begin a boot.
package nodeapi
