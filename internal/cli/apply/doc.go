// Package apply has the commands `apply`, `export`, `plan` and `node import`, which work on a whole site.
//
// It compares a fleet file with what the server has, shows the difference, asks, and applies it. `plan` simulates a
// boot of many nodes without a server. The package cli adds the commands to the tree. It must never change anything
// that it has not shown.
package apply
