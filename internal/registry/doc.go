// Package registry is the server's database: nodes, groups, tags, leases, boots, tokens, settings, and the events of
// all boots.
//
// It owns two SQLite files. registry.db has what must not be lost: a write is on disk when Update returns. events.db
// has history: an event survives a crash of the program at once, and a power failure after moments; the oldest are
// deleted first.
//
// The rooms of the server call it. It must never store a secret: of tokens and sessions it has only the SHA-256.
package registry
