package server

import (
	"context"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// stateNodes tells the room of node state which node makes a request.
type stateNodes struct{ s *Server }

// Reporter returns the boot that a request may speak for.
func (n stateNodes) Reporter(r *http.Request, boot fleet.BootID) (registry.Boot, error) {
	return n.s.reporter(r, api.ReportRequest{Boot: boot})
}

// Member returns the adopted node that has a MAC, and its group with the node's own settings.
func (n stateNodes) Member(ctx context.Context, mac fleet.MAC) (fleet.Node, fleet.Group, error) {
	return n.s.member(ctx, mac)
}

// Withheld returns why a boot gets no secrets, "" if it gets them.
func (stateNodes) Withheld(b registry.Boot, n fleet.Node, g fleet.Group) string {
	return nodeConfig{node: n, group: g, boot: b}.claim().Withheld()
}
