package main

import (
	"os"

	"pando/internal/node"
)

// release is set by the linker: -X main.release=...
var release = "dev"

func main() { os.Exit(node.Main(os.Args, release, os.Stdout, os.Stderr)) }
