// Package buildrun runs a build, shows its progress and prints its result.
//
// It owns no state. The commands `image build`, `image rebuild` and `up` call it with options that they have checked.
//
// It must never publish a version: its caller does.
package buildrun
