// Package clikit has what tests of the command line share: an environment with recorded output, a fixed clock, and
// boots to show.
//
// It owns no state. Only tests use it: those of internal/cli/* and cmd/pando. It must never be imported by a package
// that is part of a program.
package clikit
