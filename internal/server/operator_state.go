package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/volume"
)

// stateRoutes are the routes of what nodes keep.
func (o *operator) stateRoutes() []operatorRoute {
	return []operatorRoute{
		{"GET", "/v1/state", answer(o.listState)},
		{"POST", "/v1/state/{name}/snapshot", answer(o.snapshotState)},
		{"POST", "/v1/state/{name}/reset", answer(o.resetState)},
		{"POST", "/v1/state/{name}/copy", answer(o.copyState)},
	}
}

// listState answers GET /v1/state.
func (o *operator) listState(r *http.Request) (any, error) {
	volumes, err := o.volumes.List(r.Context())
	if err != nil {
		return nil, err
	}
	selection := r.URL.Query().Get("select")
	out := api.StateList{Nodes: []api.StateOf{}}
	known := map[string]bool{}
	err = o.reg.View(r.Context(), func(tx *registry.Tx) error {
		names, err := tx.NodeNames()
		if err != nil {
			return err
		}
		known = names
		nodes, err := selectNodes(tx, selection, true)
		for _, n := range nodes {
			g, e := tx.Group(n.Group)
			if err = errors.Join(err, e); err != nil {
				return err
			}
			if s := stateOf(n.Overrides.Of(g), n.Name, volumes); s.Kept != "" || s.Volume != nil {
				out.Nodes = append(out.Nodes, s)
			}
		}
		return err
	})
	if selection == "" && registry.LimitOf(r.Context()) == nil { // those of nodes that are gone are nobody's
		for _, v := range volumes {
			if !known[v.Name] {
				out.Nodes = append(out.Nodes, stateOf(fleet.Group{}, v.Name, volumes))
			}
		}
	}
	return out, err
}

func stateOf(g fleet.Group, node string, volumes []volume.Info) api.StateOf {
	s := api.StateOf{Node: node, Kept: g.StateText(), Persist: g.PersistList()}
	if i := slices.IndexFunc(volumes, func(v volume.Info) bool { return v.Name == node }); i >= 0 {
		v := volumes[i]
		s.Volume = &api.VolumeState{Size: v.Size, Used: v.Used, Attached: v.Attached, Changed: v.Changed}
		for _, x := range v.Snapshots {
			s.Volume.Snapshots = append(s.Volume.Snapshots, api.Snapshot(x))
		}
	}
	return s
}

// snapshotState answers POST /v1/state/{name}/snapshot.
func (o *operator) snapshotState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidName("snapshot", req.Snapshot); err != nil {
			return refused(err.Error(), "")
		}
		return o.volumes.Snapshot(ctx, node, req.Snapshot)
	})
}

// resetState answers POST /v1/state/{name}/reset.
func (o *operator) resetState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if req.Snapshot != "" {
			return o.volumes.Restore(ctx, node, req.Snapshot)
		}
		return o.volumes.Reset(ctx, node)
	})
}

// copyState answers POST /v1/state/{name}/copy.
func (o *operator) copyState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidNodeName(req.From); err != nil {
			return refused(err.Error(), "")
		}
		return o.volumes.Copy(ctx, req.From, node)
	})
}

// changeState does something to the volume that is called as a node.
func (o *operator) changeState(r *http.Request, do func(context.Context, string, api.StateChange) error) (any, error) {
	req, err := body[api.StateChange](r)
	if err != nil {
		return nil, err
	}
	node := r.PathValue("name")
	if err := fleet.ValidNodeName(node); err != nil {
		return nil, refused(err.Error(), "")
	}
	if registry.LimitOf(r.Context()) != nil {
		if err := o.reg.View(r.Context(), func(tx *registry.Tx) error {
			_, err := tx.Node(node)
			if err == nil && req.From != "" {
				_, err = tx.Node(req.From)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	switch err := do(r.Context(), node, req); {
	case errors.Is(err, volume.ErrAttached):
		return nil, api.NewError(api.Conflict, fmt.Sprintf("%v: the node is on", err), "switch it off first: what it has in memory belongs to the state that it has now")
	case errors.Is(err, volume.ErrNone):
		return nil, api.NewError(api.NotFound, err.Error(), "`pando node state list` shows what there is; of state on file systems and disks, what a node keeps is a directory called as the node")
	case err != nil:
		return nil, err
	}
	volumes, err := o.volumes.List(r.Context())
	return stateOf(fleet.Group{}, node, volumes), err
}

// retireVolume puts the volume of a node that was deleted out of the way of the next node of that name.
func (o *operator) retireVolume(ctx context.Context, node string) {
	err := o.volumes.Rename(ctx, node, fmt.Sprintf("%s.deleted-%d", node, o.now().Unix()))
	if err != nil && !errors.Is(err, volume.ErrNone) {
		o.log.Error("keep the volume of a deleted node apart", "node", node, "err", err)
	}
}
