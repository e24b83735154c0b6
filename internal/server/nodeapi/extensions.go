package nodeapi

import (
	"context"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// otherExtensions reports whether a node should have other extensions than those that it reports.
func (s *Service) otherExtensions(ctx context.Context, b registry.Boot, has string) bool {
	if has == "" || b.Session.IsZero() {
		return false
	}
	_, group, err := s.planner.Member(ctx, b.MAC)
	if err != nil {
		return false
	}
	want, _, err := s.boot.Extensions(ctx, group, b.Version)
	return err == nil && fleet.ExtensionsKey(want) != has
}

// Extensions answers POST /v1/node/extensions with the extensions that a running node should mount over its root. The
// reply is a signed assignment of the running boot, without files.
func (s *Service) Extensions(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.NodeNext](w, r)
	if err != nil {
		return err
	}
	b, err := s.nodeAuth.BySession(r, req.Boot)
	if err != nil {
		return err
	}
	node, group, err := s.planner.Member(r.Context(), b.MAC)
	if err != nil {
		return err
	}
	group.Keeping = fleet.Keeping{Extensions: group.Extensions}
	var resp api.StageResponse
	resp.Assignment, resp.Signature, err = s.boot.Assign(
		r.Context(),
		b,
		nodeconfig.Node{Node: node, Group: group, Boot: b},
		nodeconfig.Set{},
		nil,
		httpapi.LocalAddr(r),
	)
	if err != nil {
		return err
	}
	return httpapi.Reply(w, resp)
}
