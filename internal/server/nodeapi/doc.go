// Package nodeapi answers running nodes: reports with events and status, commands, config files, extensions, and what
// the next boot will run.
//
// It owns only what it reported last about full write layers. The server's wiring routes the requests below /v1/node/
// to it. It must never accept what a node reports of another node's boot, and never begin a boot.
package nodeapi
