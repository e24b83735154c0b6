package server

import (
	"context"
	"net/http"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// syncAtOnce is how many nodes are waited for at a time.
const syncAtOnce = 256

// syncNodes answers POST /v1/nodes/sync.
func (o *operator) syncNodes(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.SyncRequest](r)
	if err != nil {
		return nil, err
	}
	var nodes []fleet.Node
	var boots map[string]registry.Boot
	err = o.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
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
	turn := make(chan struct{}, syncAtOnce)
	for i, n := range nodes {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			out.Nodes[i] = o.syncNode(r.Context(), n, boots[n.Name], req.DryRun)
		})
	}
	all.Wait()
	return out, nil
}

// syncNode has one node look after its config files.
func (o *operator) syncNode(ctx context.Context, n fleet.Node, b registry.Boot, dryRun bool) api.NodeSync {
	out := api.NodeSync{Node: n.Name}
	if b.Session.IsZero() {
		out.Off = true
		return out
	}
	rep, err := o.errands.Do(ctx, b.ID, api.Errand{Kind: api.SyncConfig, DryRun: dryRun})
	if err != nil {
		e := httpapi.ErrorOf(err)
		out.Error, out.Hint = e.Message, e.Hint
		return out
	}
	out.Files, out.Error, out.Hint = rep.Files, rep.Error, rep.Hint
	err = o.reg.View(ctx, func(tx *registry.Tx) error {
		c, err := nodeconfig.Read(tx, n, b)
		if err == nil {
			out.Problems = o.configs.Render(c, o.configs.Secrets(c)).Problems
		}
		return err
	})
	if err != nil && out.Error == "" {
		out.Error = err.Error()
	}
	return out
}

// configState tells which config files of a running node are not what it would be given now.
func (o *operator) configState(tx *registry.Tx, n fleet.Node, b registry.Boot) (old, gone []string, err error) {
	if b.Session.IsZero() || b.Config == nil {
		return nil, nil, nil
	}
	c, err := nodeconfig.Read(tx, n, b)
	if err != nil {
		return nil, nil, err
	}
	old, gone = nodeconfig.Changes(b.Config, o.configs.Digests(o.configs.Render(c, o.configs.Secrets(c)).All()))
	return old, gone, nil
}
