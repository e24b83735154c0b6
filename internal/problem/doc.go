// Package problem has the error that a person at the machine can act on: what failed, what was tried, and what to do.
//
// It owns no state. Code that runs on a node returns such errors; code that shows or reports them reads the hint. It
// must not print or log.
package problem
