// Package backoff waits between attempts: for a time that doubles with each attempt, up to a limit, or until a context
// ends.
//
// It owns no state. Code on a node that retries calls it: requests to servers, and the search for network links. It
// must never wait after its context has ended.
package backoff
