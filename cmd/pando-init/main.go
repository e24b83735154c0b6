// Command pando-init is Pando's program on a node: init of the initramfs, the daemons behind the root's block device,
// and the agent. Its name (argv[0]), and whether it is PID 1, decide which of them a process is. Package node has
// these roles.
//
// Every boot sends the program to the node, where it stays in memory. A test bounds its size and what it imports.
package main

import (
	"os"

	"pando/internal/node"
)

// release is set by the linker: -X main.release=...
var release = "dev"

func main() { os.Exit(node.Main(os.Args, release, os.Stdout, os.Stderr)) }
