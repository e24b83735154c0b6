// Package rootdaemon starts processes that the root file system depends on, and turns this process into one: its
// memory is locked, the out-of-memory killer spares it, and it ignores signals.
//
// It owns no state. Block daemon, supervisor and volume use it. It must not open anything on the root.
package rootdaemon
