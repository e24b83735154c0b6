package server

import (
	"context"

	"pando/internal/fleet"
)

// follow has those of some nodes that run look at their extensions now.
func (o *operator) follow(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	pick := make(map[string]bool, len(names))
	for _, n := range names {
		pick[n] = true
	}
	o.nudger.Nodes(ctx, func(n fleet.Node) bool { return pick[n.Name] })
}
