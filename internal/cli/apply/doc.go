// Package apply has the commands `apply`, `export`, `plan` and `node import`, which work on a whole site.
//
// A fleet file is compared with what the server has, the difference is shown, and after a question it is done. `plan`
// simulates a boot of many nodes without a server. It must never change anything that it has not shown.
package apply
