// Package doctor has the command `doctor`, which reports what on this machine keeps nodes from booting.
//
// It runs the checks of package hostcheck in order and prints each finding with its fix. The exit code is that of the
// worst finding. The package cli adds the command to the tree. It must never change the machine.
package doctor
