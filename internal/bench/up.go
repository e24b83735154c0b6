package bench

import (
	"pando/internal/api"
)

// Up reports whether a node runs what it should run.
func Up(n api.Node) bool {
	return n.Boot != nil && n.Boot.State.Reached() && n.Running != "" && n.Running == n.Desired
}
