package main

import (
	"pando/internal/api"
	"pando/internal/trace"
)

// up is a node that runs what it should run.
func up(n api.Node) bool {
	return n.Boot != nil && n.Boot.State == trace.Up && n.Running != "" && n.Running == n.Desired
}
