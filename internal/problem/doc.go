// Package problem has the error that a person at the machine can act on: what failed, what was tried, and what to do.
//
// It owns nothing. Everything that runs on a node returns such errors; who shows or reports them asks for the hint.
// It must not print or log.
package problem
