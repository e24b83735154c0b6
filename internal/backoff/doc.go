// Package backoff waits: for a time that doubles between attempts, and until a context ends.
//
// It owns nothing. Everything on a node that tries again uses it.
package backoff
