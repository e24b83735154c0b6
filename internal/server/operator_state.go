package server

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

// stateRoutes are the routes of what nodes keep.
func (o *operator) stateRoutes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/state", httpapi.JSON(o.listState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/snapshot", httpapi.JSON(o.snapshotState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/reset", httpapi.JSON(o.resetState)),
		httpapi.NewRoute("POST", "/v1/state/{name}/copy", httpapi.JSON(o.copyState)),
		httpapi.NewRoute("DELETE", "/v1/state/{name}/orders", httpapi.JSON(o.withdrawState)),
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
	var records map[string]fleet.StateRecord
	err = o.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
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
			if s := o.stateOf(n.Settings.Of(g), n.Name, volumes, records); s.Kept != "" || s.Volume != nil ||
				len(s.Places) > 0 {
				out.Nodes = append(out.Nodes, s)
			}
		}
		return err
	})
	if selection == "" && registry.LimitOf(r.Context()) == nil { // those of nodes that are gone are nobody's
		for _, name := range goneStates(known, volumes, records) {
			out.Nodes = append(out.Nodes, o.stateOf(fleet.Group{}, name, volumes, records))
		}
	}
	return out, err
}

// goneStates are the names that state of nodes that are gone goes by.
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

func (o *operator) stateOf(
	g fleet.Group,
	node string,
	volumes []volume.Info,
	records map[string]fleet.StateRecord,
) api.StateOf {
	r := records[node]
	s := api.StateOf{Node: node, Kept: g.StateText(), Persist: g.PersistList(), Place: nodestate.Place(g.Keeping),
		Dir: r.Dir, Deleted: r.Deleted, Places: r.Places, Orders: r.Orders, Last: r.Last}
	for i, x := range s.Orders {
		if x.Waits() {
			s.Orders[i].Bytes = o.parcels.arrived(x.ID)
		}
	}
	if i := slices.IndexFunc(volumes, func(v volume.Info) bool { return v.Name == node }); i >= 0 {
		v := volumes[i]
		s.Volume = &api.VolumeState{Size: v.Size, Used: v.Used, Attached: v.Attached, Changed: v.Changed}
		for _, x := range v.Snapshots {
			s.Volume.Snapshots = append(s.Volume.Snapshots, api.Snapshot(x))
		}
	}
	return s
}

// stateNow is what there is of one node.
func (o *operator) stateNow(ctx context.Context, node string) (out api.StateOf, err error) {
	volumes, err := o.volumes.List(ctx)
	if err != nil {
		return out, err
	}
	err = o.reg.View(ctx, func(tx *registry.Tx) error {
		records, err := tx.StateRecords()
		if err != nil {
			return err
		}
		n, err := tx.Node(node)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			out = o.stateOf(fleet.Group{}, node, volumes, records)
			return nil
		case err != nil:
			return err
		}
		g, err := tx.Group(n.Group)
		if err != nil {
			return err
		}
		out = o.stateOf(n.Settings.Of(g), node, volumes, records)
		views, err := o.views.Views(ctx, tx, []fleet.Node{n})
		out.On = err == nil && o.runs(views[0])
		return err
	})
	return out, err
}

// snapshotState answers POST /v1/state/{name}/snapshot.
func (o *operator) snapshotState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidName("snapshot", req.Snapshot); err != nil {
			return httpapi.BadRequest(err.Error(), "")
		}
		return o.volumes.Snapshot(ctx, node, req.Snapshot)
	})
}

// resetState answers POST /v1/state/{name}/reset.
func (o *operator) resetState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if req.Snapshot != "" {
			return cmp.Or(o.volumes.Restore(ctx, node, req.Snapshot), o.voidOrders(ctx, node))
		}
		of, err := o.statesOf(ctx, node)
		switch {
		case err != nil:
			return err
		case of.gone:
			return o.removeState(ctx, of, req)
		case of.st.Kind == fleet.StateVolume && len(req.Paths) == 0, of.place == "":
			return cmp.Or(o.volumes.Reset(ctx, node), o.voidOrders(ctx, node))
		}
		return o.orderReset(ctx, of, req)
	})
}

// copyState answers POST /v1/state/{name}/copy.
func (o *operator) copyState(r *http.Request) (any, error) {
	return o.changeState(r, func(ctx context.Context, node string, req api.StateChange) error {
		if err := fleet.ValidNodeName(req.From); err != nil {
			return httpapi.BadRequest(err.Error(), "")
		}
		of, err := o.statesOf(ctx, node)
		if err != nil {
			return err
		}
		if of.place != "" {
			from, err := o.statesOf(ctx, req.From)
			if err != nil || of.st.Kind != fleet.StateVolume || from.place != "" && from.st.Kind != fleet.StateVolume {
				return cmp.Or(err, o.orderCopy(ctx, of, req))
			}
		}
		return cmp.Or(o.volumes.Copy(ctx, req.From, node), o.voidOrders(ctx, node))
	})
}

// withdrawState answers DELETE /v1/state/{name}/orders.
func (o *operator) withdrawState(r *http.Request) (any, error) {
	node := r.PathValue("name")
	err := o.reg.Update(r.Context(), func(tx *registry.Tx) error {
		if tx.Limited() {
			if _, err := tx.Node(node); err != nil {
				return err
			}
		}
		rec, err := tx.StateRecord(node)
		if err == nil && len(rec.Orders) == 0 {
			err = api.NewError(
				api.NotFound,
				"nothing is to be done to the state of "+node,
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
		err = o.settleCopies(r.Context())
	}
	if err != nil {
		return nil, err
	}
	return o.stateNow(r.Context(), node)
}

// changeState does something to what a node keeps.
func (o *operator) changeState(r *http.Request, do func(context.Context, string, api.StateChange) error) (any, error) {
	req, err := httpapi.Body[api.StateChange](r)
	if err != nil {
		return nil, err
	}
	node := r.PathValue("name")
	if err := fleet.ValidNodeName(node); err != nil {
		return nil, httpapi.BadRequest(err.Error(), "")
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
	err = do(r.Context(), node, req)
	if err == nil {
		err = o.settleCopies(r.Context()) // it may have replaced one
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
	return o.stateNow(r.Context(), node)
}

// renamed has what belongs to a node follow its name.
func (o *operator) renamed(ctx context.Context, was, is string) {
	if err := o.journals.Rename(was, is); err != nil {
		o.log.Error("journals of a node that was renamed", "err", err)
	}
	if err := o.volumes.Rename(ctx, was, is); err != nil && !errors.Is(err, volume.ErrNone) {
		o.log.Error("volume of a node that was renamed", "err", err)
	}
}

// retireVolume puts the volume of a node that was deleted out of the way of the next node of that name, and ends
// copies that it was to send or to get.
func (o *operator) retireVolume(ctx context.Context, node string, at time.Time) {
	err := o.volumes.Rename(ctx, node, registry.DeletedName(node, at))
	if err != nil && !errors.Is(err, volume.ErrNone) {
		o.log.Error("keep the volume of a deleted node apart", "node", node, "err", err)
	}
	if err := o.settleCopies(ctx); err != nil {
		o.log.Error("after a node was deleted", "node", node, "err", err)
	}
}
