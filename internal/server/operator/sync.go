package operator

import (
	"context"
	"net/http"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// syncAtOnce is how many nodes a sync waits for at a time.
const syncAtOnce = 256

// syncAPI makes running nodes update their config files.
type syncAPI struct {
	reg      *registry.Registry
	renderer *nodeconfig.Renderer
	commands *nodecommand.Queue
}

// syncNodes answers POST /v1/nodes/sync.
func (a *syncAPI) syncNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.SyncRequest](r)
	if err != nil {
		return nil, err
	}
	var nodes []fleet.Node
	var boots map[string]registry.Boot
	err = a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		if nodes, err = fleetview.SelectNodes(tx, req.Select, false); err == nil {
			boots, err = tx.LatestBoots()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := api.SyncList{DryRun: req.DryRun, Nodes: make([]api.NodeSync, len(nodes))}
	var all sync.WaitGroup
	slots := make(chan struct{}, syncAtOnce)
	for i, n := range nodes {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out.Nodes[i] = a.syncNode(r.Context(), n, boots[n.Name], req.DryRun)
		})
	}
	all.Wait()
	return out, nil
}

// syncNode makes one node update its config files, or with dryRun say what it would change.
func (a *syncAPI) syncNode(ctx context.Context, n fleet.Node, b registry.Boot, dryRun bool) api.NodeSync {
	out := api.NodeSync{Node: n.Name}
	if b.Session.IsZero() {
		out.Off = true
		return out
	}
	rep, err := a.commands.Do(ctx, b.ID, api.NodeCommand{Kind: api.SyncConfig, DryRun: dryRun})
	if err != nil {
		e := httpapi.ErrorOf(err)
		out.Error, out.Hint = e.Message, e.Hint
		return out
	}
	out.Files, out.Error, out.Hint = rep.Files, rep.Error, rep.Hint
	err = a.reg.View(ctx, func(tx *registry.Tx) error {
		c, err := nodeconfig.Read(tx, n, b)
		if err == nil {
			out.Problems = a.renderer.Render(c, a.renderer.Secrets(c)).Problems
		}
		return err
	})
	if err != nil && out.Error == "" {
		out.Error = err.Error()
	}
	return out
}
