// Package registry is the server's durable record: nodes, groups, tags, leases, boots, tokens, settings, and the
// events of all boots.
//
// The words. The record is two SQLite files. registry.db holds what must not be lost: a write has reached the disk
// when Update returns. events.db holds history: an event survives a crash of the program at once, and a power
// failure within moments; it is bounded, the oldest events go first. A boot has one line in the history of boots,
// which is kept longer than its events, and is thinned out rather than cut off. Each file has one writer, a
// goroutine that puts all writes that wait into one transaction: a thousand leases that arrive together share one
// fsync (group commit). A write that fails undoes itself and no other.
//
// View and Update run a function on a transaction; everything that can be read or written is a method of Tx. The
// function sees a consistent state and must not wait for anything else. Update is all or nothing: to try a change
// and not make it, return an error (ErrDryRun).
//
// Append is the only way an event comes into being. It gives the event its sequence number, folds it into the
// progress of its boot and wakes everyone who follows.
//
// Secrets are not kept: of tokens and sessions only SHA-256 digests are.
package registry
