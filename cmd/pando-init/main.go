// Command pando-init is Pando's program on a node: init of the initramfs, the daemons behind the root's block
// device, and the agent. Which of them it is depends on its name (argv[0]) and on being PID 1; package node has
// the roles. It is sent with every boot and stays in every node's memory, so what it is linked from is
// held down by a test.
package main

import (
	"os"

	"pando/internal/node"
)

// release is set by the linker: -X main.release=...
var release = "dev"

func main() { os.Exit(node.Main(os.Args, release, os.Stdout, os.Stderr)) }
