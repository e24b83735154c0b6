package nodeapi

import (
	"context"
	"maps"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// ConfigFiles answers POST /v1/node/config with the config files of a running boot. They count as in place only after
// the node has reported so.
func (s *Service) ConfigFiles(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.NodeConfigRequest](w, r)
	if err != nil {
		return err
	}
	b, err := s.nodeAuth.Reporter(r, req.Boot)
	if err != nil {
		return err
	}
	if b.Session.IsZero() || httpapi.Credential(r, "Bearer") == "" {
		return api.NewError(api.Unauthorized, "the boot has no session yet", "")
	}
	n, err := s.runningConfig(r.Context(), b)
	if err != nil {
		return err
	}
	set := s.configs.Render(n, s.configs.Secrets(n))
	s.commands.Handed(b.ID, s.configs.Digests(set.All()))
	return httpapi.Reply(w, api.NodeConfigResponse{Files: set.All()})
}

// runningConfig returns what the config files of a running boot are rendered from.
func (s *Service) runningConfig(ctx context.Context, b registry.Boot) (n nodeconfig.Node, err error) {
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		node, err := tx.NodeByMAC(b.MAC)
		if fleetview.Absent(err) || err == nil && node.State != fleet.Adopted {
			return api.NewError(api.Unauthorized, "no adopted node has MAC "+b.MAC.String(), "")
		}
		if err == nil {
			n, err = nodeconfig.Read(tx, node, b)
		}
		return err
	})
	return n, err
}

// synced records which config files a node has after a sync command: all that it was sent, except those that it could
// not put in place.
func (s *Service) synced(ctx context.Context, rep api.NodeCommandReport) error {
	handed, dryRun := s.commands.WasHanded(rep)
	if handed == nil {
		return nil
	}
	differs := map[string]bool{}
	for _, f := range rep.Files {
		differs[f.Path] = f.Error != "" || dryRun
	}
	c, err := s.boots.ByID(ctx, rep.Boot)
	if err != nil {
		return err
	}
	defer c.Unlock()
	return s.boots.Save(ctx, c, func(b *registry.Boot) {
		b.Config = maps.Clone(b.Config)
		for path, digest := range handed {
			if differs[path] {
				continue
			}
			if b.Config == nil {
				b.Config = map[string]string{}
			}
			b.Config[path] = digest
		}
	})
}
