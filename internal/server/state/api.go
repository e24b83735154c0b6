package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodestate"
	"pando/internal/registry"
	"pando/internal/volume"
)

// Routes returns the operators' routes about node state.
func (s *Service) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/state", httpapi.JSON(s.listState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/snapshot", httpapi.JSON(s.snapshotState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/reset", httpapi.JSON(s.resetState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/copy", httpapi.JSON(s.copyState)),
		httpapi.NewRoute("DELETE", "/v1/state/{name}/orders", httpapi.JSON(s.withdrawState)),
	}
}

// listState answers GET /v1/state.
func (s *Service) listState(r *http.Request) (any, error) {
	volumes, err := s.volumes.List(r.Context())
	if err != nil {
		return nil, err
	}
	selection := r.URL.Query().Get("select")
	out := api.StateList{Nodes: []api.StateOf{}}
	known := map[string]bool{}
	var records map[string]fleet.StateRecord
	err = s.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		out.Nodes = out.Nodes[:0]
		if known, err = tx.NodeNames(); err != nil {
			return err
		}
		if records, err = tx.StateRecords(); err != nil {
			return err
		}
		nodes, err := fleetview.SelectNodes(tx, selection, true)
		for _, n := range nodes {
			g, e := tx.Group(n.Group)
			if err = errors.Join(err, e); err != nil {
				return err
			}
			if x := stateOf(n.Settings.Of(g), n.Name, volumes, records); x.Kept != "" || x.Volume != nil ||
				len(x.Places) > 0 {
				out.Nodes = append(out.Nodes, x)
			}
		}
		return err
	})
	if selection == "" && registry.LimitOf(r.Context()) == nil { // deleted nodes are in no node set
		for _, name := range goneStates(known, volumes, records) {
			out.Nodes = append(out.Nodes, stateOf(fleet.Group{}, name, volumes, records))
		}
	}
	return out, err
}

// goneStates returns the names of deleted nodes whose state is still there.
func goneStates(known map[string]bool, volumes []volume.Info, records map[string]fleet.StateRecord) []string {
	names := map[string]bool{}
	for _, v := range volumes {
		names[v.Name] = true
	}
	for name, r := range records {
		names[name] = names[name] || !r.Deleted.IsZero()
	}
	var out []string
	for name, is := range names {
		if is && !known[name] {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, fleet.CompareNames)
	return out
}

func stateOf(
	g fleet.Group,
	node string,
	volumes []volume.Info,
	records map[string]fleet.StateRecord,
) api.StateOf {
	r := records[node]
	out := api.StateOf{Node: node, Kept: g.StateText(), Persist: g.PersistList(), Place: nodestate.Place(g.Keeping),
		Dir: r.Dir, Deleted: r.Deleted, Places: r.Places, Orders: r.Orders, Last: r.Last}
	if i := slices.IndexFunc(volumes, func(v volume.Info) bool { return v.Name == node }); i >= 0 {
		v := volumes[i]
		out.Volume = &api.VolumeState{Size: v.Size, Used: v.Used, Attached: v.Attached, Changed: v.Changed}
		for _, x := range v.Snapshots {
			out.Volume.Snapshots = append(out.Volume.Snapshots, api.Snapshot(x))
		}
	}
	return out
}

// stateNow returns the state of one node.
func (s *Service) stateNow(ctx context.Context, node string) (out api.StateOf, err error) {
	volumes, err := s.volumes.List(ctx)
	if err != nil {
		return out, err
	}
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		records, err := tx.StateRecords()
		if err != nil {
			return err
		}
		n, err := tx.Node(node)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			out = stateOf(fleet.Group{}, node, volumes, records)
			return nil
		case err != nil:
			return err
		}
		g, err := tx.Group(n.Group)
		if err != nil {
			return err
		}
		out = stateOf(n.Settings.Of(g), node, volumes, records)
		views, err := s.views.Views(ctx, tx, []fleet.Node{n})
		out.On = err == nil && s.runs(views[0])
		return err
	})
	return out, err
}

// snapshotState answers POST /v1/state/{name}/snapshot.
func (s *Service) snapshotState(r *http.Request) (any, error) {
	return s.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidName("snapshot", req.Snapshot); err != nil {
			return httpapi.BadRequest(err.Error(), "")
		}
		return s.volumes.Snapshot(ctx, node, req.Snapshot)
	})
}

// resetState answers POST /v1/state/{name}/reset.
func (s *Service) resetState(r *http.Request) (any, error) {
	return s.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if req.Snapshot != "" {
			return cmp.Or(s.volumes.Restore(ctx, node, req.Snapshot), s.voidOrders(ctx, node))
		}
		of, err := s.statesOf(ctx, node)
		switch {
		case err != nil:
			return err
		case of.gone:
			return s.removeState(ctx, of, req)
		case of.st.Kind == fleet.StateVolume && len(req.Paths) == 0, of.place == "":
			return cmp.Or(s.volumes.Reset(ctx, node), s.voidOrders(ctx, node))
		}
		return s.orderReset(ctx, of, req)
	})
}

// copyState answers POST /v1/state/{name}/copy.
func (s *Service) copyState(r *http.Request) (any, error) {
	return s.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidNodeName(req.From); err != nil {
			return httpapi.BadRequest(err.Error(), "")
		}
		of, err := s.statesOf(ctx, node)
		if err != nil {
			return err
		}
		if of.place != "" {
			from, err := s.statesOf(ctx, req.From)
			if err != nil || of.st.Kind != fleet.StateVolume || from.place != "" && from.st.Kind != fleet.StateVolume {
				return cmp.Or(err, s.orderCopy(ctx, of, req))
			}
		}
		return cmp.Or(s.volumes.Copy(ctx, req.From, node), s.voidOrders(ctx, node))
	})
}

// withdrawState answers DELETE /v1/state/{name}/orders.
func (s *Service) withdrawState(r *http.Request) (any, error) {
	node := r.PathValue("name")
	err := s.registry.Update(r.Context(), func(tx *registry.Tx) error {
		if tx.Limited() {
			if _, err := tx.Node(node); err != nil {
				return err
			}
		}
		rec, err := tx.StateRecord(node)
		if err == nil && len(rec.Orders) == 0 {
			err = api.NewError(
				api.NotFound,
				"there are no orders about the state of "+node,
				"`pando node state list` shows what is",
			)
		}
		if err != nil {
			return err
		}
		rec.Orders = nil
		return tx.PutStateRecord(rec)
	})
	if err == nil {
		err = s.SettleCopies(r.Context())
	}
	if err != nil {
		return nil, err
	}
	return s.stateNow(r.Context(), node)
}

// changeState checks a request, changes the state of its node with do, and answers with the state after that.
func (s *Service) changeState(r *http.Request, do func(context.Context, string, api.StateChange) error) (any, error) {
	req, err := httpapi.Body[api.StateChange](r)
	if err != nil {
		return nil, err
	}
	node := r.PathValue("name")
	if err := fleet.ValidNodeName(node); err != nil {
		return nil, httpapi.BadRequest(err.Error(), "")
	}
	if registry.LimitOf(r.Context()) != nil {
		if err := s.registry.View(r.Context(), func(tx *registry.Tx) error {
			_, err := tx.Node(node)
			if err == nil && req.From != "" {
				_, err = tx.Node(req.From)
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	err = do(r.Context(), node, req)
	if err == nil {
		err = s.SettleCopies(r.Context()) // the change may have replaced a copy
	}
	switch {
	case errors.Is(err, volume.ErrAttached):
		return nil, api.NewError(
			api.Conflict,
			fmt.Sprintf("%v: the node is on", err),
			"switch it off first: what it has in memory belongs to the state that it has now",
		)
	case errors.Is(err, volume.ErrNone):
		return nil, api.NewError(api.NotFound, err.Error(), "`pando node state list` shows what there is")
	case err != nil:
		return nil, err
	}
	return s.stateNow(r.Context(), node)
}

// NodeRenamed gives the volume of a node the node's new name.
func (s *Service) NodeRenamed(ctx context.Context, was, is string) {
	if err := s.volumes.Rename(ctx, was, is); err != nil && !errors.Is(err, volume.ErrNone) {
		s.log.Error("volume of a renamed node cannot be renamed", "node", is, "was", was, "err", err)
	}
}

// NodeDeleted renames the volume of a deleted node, so that a new node of that name does not get it. It also ends
// copies from and to the node.
func (s *Service) NodeDeleted(ctx context.Context, node string, at time.Time) {
	err := s.volumes.Rename(ctx, node, registry.DeletedName(node, at))
	if err != nil && !errors.Is(err, volume.ErrNone) {
		s.log.Error("volume of a deleted node cannot be renamed", "node", node, "err", err)
	}
	if err := s.SettleCopies(ctx); err != nil {
		s.log.Error("copies of a deleted node cannot be ended", "node", node, "err", err)
	}
}
