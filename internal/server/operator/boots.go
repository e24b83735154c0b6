package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Limits of answers that list boots and events.
const (
	defaultBoots  = 100
	maxBoots      = 10_000
	defaultEvents = 1000
	maxEvents     = 10_000
	maxEventBytes = 4 << 20
)

// bootAPI shows boots and their events.
type bootAPI struct {
	reg         *registry.Registry
	faults      Faults
	flushEvents func(context.Context) error // writes the events that are still in memory
}

func (a *bootAPI) listBoots(r *http.Request) (any, error) {
	limit, err := httpapi.QueryInt(r, "limit", defaultBoots)
	if err != nil {
		return nil, err
	}
	limit = min(max(limit, 1), maxBoots)
	out := api.BootList{Boots: []api.Boot{}}
	var boots []registry.Boot
	var latest map[fleet.BootID]fleet.Node
	err = a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		if boots, err = selectBoots(tx, r.URL.Query().Get("select"), int(limit)); err != nil {
			return err
		}
		latest, err = latestOf(tx, boots)
		return err
	})
	if err != nil {
		return nil, err
	}
	ids := make([]fleet.BootID, len(boots))
	for i, b := range boots {
		ids[i] = b.ID
	}
	if err := a.flushEvents(r.Context()); err != nil {
		return nil, err
	}
	progress, err := a.reg.Progress(r.Context(), ids...)
	for _, b := range boots {
		state, err := a.state(r.Context(), latest, b, progress[b.ID])
		if err != nil {
			return out, err
		}
		out.Boots = append(out.Boots, fleetview.Boot(b, progress[b.ID], state))
	}
	return out, err
}

// state returns the state of a boot: for a node's latest boot the state of the node now, for an earlier one how it
// ended.
func (a *bootAPI) state(
	ctx context.Context,
	latest map[fleet.BootID]fleet.Node,
	b registry.Boot,
	p registry.Progress,
) (trace.State, error) {
	n, is := latest[b.ID]
	if !is && b.Node != "" {
		return p.Ended(), nil
	}
	return a.faults.State(ctx, n, p)
}

// latestOf returns the nodes whose latest boot is in boots, by boot.
func latestOf(tx *registry.Tx, boots []registry.Boot) (map[fleet.BootID]fleet.Node, error) {
	names := map[string]bool{}
	for _, b := range boots {
		names[b.Node] = true
	}
	latest, err := tx.LatestBoots(slices.Collect(maps.Keys(names))...)
	out := make(map[fleet.BootID]fleet.Node, len(latest))
	for name, b := range latest {
		if err == nil && names[name] {
			out[b.ID], err = tx.Node(name)
		}
		if errors.Is(err, registry.ErrNotFound) {
			err = nil // a node was deleted
		}
	}
	return out, err
}

// listFailed answers GET /v1/boots/failed.
func (a *bootAPI) listFailed(r *http.Request) (any, error) {
	limit, err := httpapi.QueryInt(r, "limit", defaultBoots)
	if err != nil {
		return nil, err
	}
	wanted, err := fleetview.OwnNodes(r.Context(), a.reg)
	if err != nil {
		return nil, err
	}
	if selection := r.URL.Query().Get("select"); selection != "" {
		err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
			nodes, err := fleetview.SelectNodes(tx, selection, true)
			wanted = make(map[string]bool, len(nodes))
			for _, n := range nodes {
				wanted[n.Name] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	boots, err := a.faults.List(r.Context(), wanted)
	return api.BootList{Boots: boots[:min(len(boots), int(min(max(limit, 1), maxBoots)))]}, err
}

// selectBoots returns the newest boots of a node set, or of all machines if selection is "".
func selectBoots(tx *registry.Tx, selection string, limit int) ([]registry.Boot, error) {
	if selection == "" {
		return tx.Boots(registry.BootFilter{Limit: limit})
	}
	nodes, err := fleetview.SelectNodes(tx, selection, false)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 1 {
		return tx.Boots(registry.BootFilter{Node: nodes[0].Name, Limit: limit})
	}
	wanted := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		wanted[n.Name] = true
	}
	all, err := tx.Boots(registry.BootFilter{})
	var out []registry.Boot
	for _, b := range all {
		if wanted[b.Node] && len(out) < limit {
			out = append(out, b)
		}
	}
	return out, err
}

func (a *bootAPI) showBoot(r *http.Request) (any, error) {
	var b registry.Boot
	err := a.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		b, err = tx.Boot(fleet.BootID(r.PathValue("id")))
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.bootDetail(r.Context(), b)
}

func (a *bootAPI) showNodeBoot(r *http.Request) (any, error) {
	var b registry.Boot
	err := a.reg.View(r.Context(), func(tx *registry.Tx) error {
		n, err := fleetview.FindNode(tx, r.PathValue("name"))
		if err != nil {
			return err
		}
		boots, err := tx.Boots(registry.BootFilter{Node: n.Name, Limit: 1})
		if err == nil && len(boots) == 0 {
			return api.NewError(
				api.NotFound,
				"node "+n.Name+" has not booted yet",
				"switch it on and let it boot from the network",
			)
		}
		if err == nil {
			b = boots[0]
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.bootDetail(r.Context(), b)
}

// bootDetail returns a boot with its timeline.
func (a *bootAPI) bootDetail(ctx context.Context, b registry.Boot) (any, error) {
	if err := a.flushEvents(ctx); err != nil {
		return nil, err
	}
	events, err := a.reg.Events(ctx, registry.EventFilter{Boot: b.ID})
	if err != nil {
		return nil, err
	}
	progress, err := a.reg.Progress(ctx, b.ID)
	if err != nil {
		return nil, err
	}
	p := progress[b.ID]
	var latest map[fleet.BootID]fleet.Node
	err = a.reg.View(ctx, func(tx *registry.Tx) (err error) {
		latest, err = latestOf(tx, []registry.Boot{b})
		return err
	})
	if err != nil {
		return nil, err
	}
	state, err := a.state(ctx, latest, b, p)
	if err != nil {
		return nil, err
	}
	var fault *api.Fault
	if state == trace.Failed || state == trace.Degraded {
		if fault, err = a.faults.Of(ctx, b, p, events); err != nil {
			return nil, err
		}
	}
	out := api.BootDetail{Boot: fleetview.Boot(b, p, state), Steps: []api.Step{}, Events: events}
	if events == nil {
		out.Events = []trace.Event{}
	}
	line := trace.NewTimeline(events)
	if !line.Started.IsZero() {
		out.Started = line.Started // times of steps are relative to this
	}
	for _, step := range line.Steps {
		out.Steps = append(out.Steps, api.Step(step))
	}
	if len(p.Status) > 0 {
		var status api.NodeStatus
		if err := json.Unmarshal(p.Status, &status); err != nil {
			return nil, fmt.Errorf("boot %s: status: %w", b.ID, err)
		}
		out.Systemd = status.Systemd
	}
	out.Fault = fault
	out.SystemdStart, _ = trace.KernelStart(events)
	for _, g := range line.Gaps(out.Units(), events) {
		out.Gaps = append(out.Gaps, api.Gap(g))
	}
	out.Console, err = a.reg.Console(ctx, b.ID)
	return out, err
}

func (a *bootAPI) listEvents(r *http.Request) (any, error) {
	after, err := httpapi.QueryInt(r, "after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := httpapi.QueryInt(r, "limit", defaultEvents)
	if err != nil {
		return nil, err
	}
	limit = min(max(limit, 1), maxEvents)
	if err := a.flushEvents(r.Context()); err != nil {
		return nil, err
	}
	last := a.reg.Last()
	if after < 0 {
		after = max(0, last-limit)
	}
	events, err := a.reg.Events(r.Context(),
		registry.EventFilter{After: after, Limit: int(limit), Bytes: maxEventBytes})
	if err != nil {
		return nil, err
	}
	filter := fleetview.NewEventFilter(r.Context(), a.reg)
	events = slices.DeleteFunc(events, func(e trace.Event) bool { return !filter.Shows(e) })
	if events == nil {
		events = []trace.Event{}
	}
	return api.EventList{Events: events, Last: last}, err
}

// streamEvents sends events as they occur, as server-sent events. "id:" is the sequence number, so that a browser that
// lost the connection goes on where it was.
func (a *bootAPI) streamEvents(w http.ResponseWriter, r *http.Request) error {
	after, err := httpapi.QueryInt(r, "after", a.reg.Last())
	if err != nil {
		return err
	}
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		if _, err := fmt.Sscan(text, &after); err != nil {
			return httpapi.BadRequest("Last-Event-ID: "+text+" is not a number", "")
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return nil // the client is gone
	}
	filter := fleetview.NewEventFilter(r.Context(), a.reg)
	_ = a.reg.Follow(r.Context(), after, func(e trace.Event) error {
		if !filter.Shows(e) {
			return nil
		}
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Seq, b); err != nil {
			return err
		}
		return out.Flush()
	})
	return nil // the answer has begun: the client sees an error only as its end
}
