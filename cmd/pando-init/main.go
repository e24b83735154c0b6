// Command pando-init is Pando's program on a node: init of the initramfs, the daemons behind the root's block
// device, and the agent. See package boot for the roles.
package main

import (
	"os"

	"pando/internal/boot"
)

// release is set by the linker: -X main.release=...
var release = "dev"

func main() { os.Exit(boot.Main(os.Args, release, os.Stdout, os.Stderr)) }
