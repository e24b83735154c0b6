// Package ratelimit is a token bucket.
//
// A bucket owns its fill level; the caller passes the time. It limits logins, API requests and the discovery of unknown
// machines. It must never sleep.
package ratelimit
