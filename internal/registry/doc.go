// Package registry is the server's database: nodes, groups, tags, leases, boots, tokens, settings, and the events of
// all boots.
//
// It owns two SQLite files. registry.db has what must not be lost: a write is on disk when Update returns. events.db
// has history: an event survives a crash of the program at once, and a power failure after moments. History is
// bounded: the oldest events are deleted first. Each boot also has one line, which is kept for longer. Each file has
// one writer, a goroutine that puts all waiting writes into one transaction, so that a thousand leases share one fsync
// (group commit). A failed write is undone alone.
//
// View and Update run a function on a transaction; its methods (Tx) are all that can be read or written. The function
// sees a consistent state and must not wait for anything else. Update is all or nothing; to try a change without
// making it, return ErrDryRun. Append is the only way to add an event: it numbers it, updates the progress of its
// boot, and wakes the followers.
//
// On a full disk Update changes nothing. UpdateBoot goes on for boots of known nodes, from a reserve, and then in
// memory; events take the room of the oldest ones, and then wait in memory. What is in memory is written first of all
// when there is room.
//
// The rooms of the server call it. It must never store a secret: of tokens and sessions it has only the SHA-256.
package registry
