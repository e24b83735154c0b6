// Package ratelimit is a token bucket.
//
// A bucket owns its fill level; the caller passes the time. Logins, API requests and the discovery of unknown machines
// are limited with it. It must never sleep.
package ratelimit
