// Package rootdaemon starts processes that the root file system depends on, and makes this process one of them: locked
// in memory, spared by the out-of-memory killer, deaf to signals.
//
// It owns nothing. Block daemon, supervisor and volume use it. It must not open anything on the root.
package rootdaemon
