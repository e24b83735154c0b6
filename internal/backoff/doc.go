// Package backoff waits between attempts: for a time that doubles with each attempt, or until a context ends.
//
// It owns no state. Code on a node that retries calls it. It must never wait after its context has ended.
package backoff
