// Package buildrun runs a build with progress on the screen and prints its result.
//
// The commands `image` and `up` call it. It must never publish a version: its caller does.
package buildrun
