// Package rootwatch restarts a node whose root nobody serves any more: block daemon and supervisor are gone, and with
// them everything that could bring them back. A node that waits for a server is left alone: its block daemon lives.
//
// It owns the judgement when a root is lost. The wiring of package node runs it beside the agent. It must not open, map
// or execute anything on the root, and not wait for anything that does; only a read of the device may hang.
package rootwatch
