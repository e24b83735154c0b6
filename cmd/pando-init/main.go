// Command pando-init is Pando's program on a node: init of the initramfs, the daemons behind the root's block device,
// and the agent. argv[0], and whether it is PID 1, select the role (package node). The program stays in the node's
// memory, so a test bounds its size and its imports.
package main

import (
	"os"

	"pando/internal/node"
)

// release is set by the linker: -X main.release=...
var release = "dev"

func main() { os.Exit(node.Main(os.Args, release, os.Stdout, os.Stderr)) }
