// Package buildrun runs a build, shows its progress and prints its result.
//
// It owns no state. The commands `image` and `up` call it. It must never publish a version: its caller does.
package buildrun
