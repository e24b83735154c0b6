// Package doctor has the command `doctor`, which tells what on this machine keeps nodes from booting.
//
// It runs the checks of the package hostcheck in their order, prints each finding with its fix, and ends with an
// exit code for the worst of them. The package cli adds it to the tree. It must never change the machine.
package doctor
