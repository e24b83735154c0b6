package nodeapi

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
)

// Stage answers POST /v1/node/stage with the version of a node's next boot, so that the node prepares it. The reply is
// a signed assignment of the running boot, without files: the next boot gets its files when it registers.
func (s *Service) Stage(w http.ResponseWriter, r *http.Request) error {
	b, c, p, err := s.boot.NextPlan(w, r, true)
	if err != nil {
		return err
	}
	c.Unlock()
	b.Image, b.Version = p.Image, p.Version
	pack := s.packs.ForBoot(p.Version, fleetview.BootClass(b))
	var resp api.StageResponse
	group := p.Group
	group.Keeping = fleet.Keeping{}
	resp.Assignment, resp.Signature, err = s.boot.Assign(
		r.Context(),
		b,
		nodeconfig.Node{Node: p.Node, Group: group, Boot: b},
		nodeconfig.Set{},
		pack,
		httpapi.LocalAddr(r),
	)
	if err != nil {
		return err
	}
	return httpapi.Reply(w, resp)
}
