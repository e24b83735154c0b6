package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Limits of the search for faulty boots.
const (
	// events are read of at most this many boots: if more fail, they fail for one reason
	faultsMost  = 1000
	habitsEvery = time.Minute // how often the usual times of boots are computed
	habitsOf    = 300         // computed from this many of the latest boots
	listEvery   = time.Second // for all browsers together; the search takes at most 1/listPart of the time
	listPart    = 10
)

// Faults determines the state of boots, and finds boots that have a fault.
type Faults struct {
	registry *registry.Registry
	seen     func(fleet.Node) time.Time // when a node was last seen
	started  time.Time                  // start of this server, which has not seen any node before
	now      func() time.Time

	mu     sync.Mutex
	looked time.Time
	habits map[string]map[trace.Stage]time.Duration // by group

	listing sync.Mutex // one caller searches, the others wait for its result
	listed  time.Time
	took    time.Duration // duration of the last search
	found   []api.Boot
}

// NewFaults returns a Faults. seen returns when a node was last seen.
func NewFaults(reg *registry.Registry, seen func(fleet.Node) time.Time, now func() time.Time) *Faults {
	return &Faults{registry: reg, seen: seen, started: now(), now: now}
}

// State returns the state of a node's latest boot. All code that shows or counts boots or nodes takes the state from
// here. n is the zero Node for a machine that is not adopted.
func (f *Faults) State(ctx context.Context, n fleet.Node, p registry.Progress) (trace.State, error) {
	facts, err := f.facts(ctx, n, p)
	return p.StateAt(facts, f.now()), err
}

// facts returns what determines the state of a node's latest boot besides its events.
func (f *Faults) facts(ctx context.Context, n fleet.Node, p registry.Progress) (facts trace.Facts, err error) {
	facts.FailedUnits = failedUnits(p)
	if facts.Seen = f.seen(n); facts.Seen.Before(f.started) {
		facts.Seen = f.started
	}
	facts.Usual, err = f.usual(ctx, n.Group)
	return facts, err
}

// Forget makes the next List search all boots again.
func (f *Faults) Forget() {
	f.listing.Lock()
	defer f.listing.Unlock()
	f.found = nil
}

// usual returns how long each stage usually takes in boots of a group.
func (f *Faults) usual(ctx context.Context, group string) (map[trace.Stage]time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.now(); f.habits == nil || now.Sub(f.looked) >= habitsEvery {
		past, err := f.registry.History(registry.Whole(ctx), registry.HistoryFilter{Limit: habitsOf})
		if err != nil {
			return nil, err
		}
		by := map[string][]trace.Ends{}
		for _, b := range past {
			if _, up := b.Ends.Total(); up && !fleet.SkipsFirmware(b.Firmware) {
				by[b.Group] = append(by[b.Group], b.Ends)
			}
		}
		f.habits, f.looked = make(map[string]map[trace.Stage]time.Duration, len(by)), now
		for g, boots := range by {
			f.habits[g] = trace.Usual(boots)
		}
	}
	return f.habits[group], nil
}

// Of returns what is wrong with a boot, nil if nothing is.
func (f *Faults) Of(
	ctx context.Context,
	b registry.Boot,
	p registry.Progress,
	events []trace.Event,
) (*api.Fault, error) {
	n, err := f.node(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	facts, err := f.facts(ctx, n, p)
	if err != nil {
		return nil, err
	}
	d, ok := trace.Diagnose(events, facts, f.now())
	if !ok {
		return nil, nil
	}
	return &api.Fault{Kind: d.Fault, Stage: d.Stage, Since: d.Since, Text: d.Text, Do: d.Do}, nil
}

// node returns a node by name, the zero Node for a boot without one.
func (f *Faults) node(ctx context.Context, name string) (n fleet.Node, err error) {
	if name == "" {
		return n, nil
	}
	err = f.registry.View(ctx, func(tx *registry.Tx) error {
		n, err = tx.Node(name)
		return err
	})
	if errors.Is(err, registry.ErrNotFound) {
		err = nil
	}
	return n, err
}

// failedUnits returns the failed systemd units in a node's last status.
func failedUnits(p registry.Progress) []string {
	if !bytes.Contains(p.Status, []byte(`"failed":[`)) { // most have none: saves decoding
		return nil
	}
	var st api.NodeStatus
	if json.Unmarshal(p.Status, &st) != nil || st.Systemd == nil {
		return nil
	}
	return st.Systemd.Failed
}

// List returns the latest boots that have a fault, the newest fault first. wanted limits them to these nodes; nil means
// all.
func (f *Faults) List(ctx context.Context, wanted map[string]bool) ([]api.Boot, error) {
	f.listing.Lock()
	defer f.listing.Unlock()
	if now := time.Now(); f.found == nil || now.Sub(f.listed) >= max(listEvery, listPart*f.took) {
		found, err := f.all(registry.Whole(ctx)) // the result also serves callers with other limits
		if err != nil {
			return []api.Boot{}, err
		}
		f.found, f.listed, f.took = found, now, time.Since(now)
	}
	out := make([]api.Boot, 0, len(f.found))
	for _, b := range f.found {
		if wanted == nil || wanted[b.Node] {
			out = append(out, b)
		}
	}
	return out, nil
}

// all searches the latest boots of all nodes.
func (f *Faults) all(ctx context.Context) ([]api.Boot, error) {
	var boots map[string]registry.Boot
	nodes := map[string]fleet.Node{}
	err := f.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if boots, err = tx.LatestBoots(); err != nil {
			return err
		}
		all, err := tx.Nodes()
		for _, n := range all {
			nodes[n.Name] = n
		}
		return err
	})
	out := []api.Boot{}
	if err != nil {
		return out, err
	}
	ids := make([]fleet.BootID, 0, len(boots))
	for _, b := range boots {
		ids = append(ids, b.ID)
	}
	progress, err := f.registry.Progress(ctx, ids...)
	if err != nil {
		return out, err
	}
	looked := 0
	for _, b := range boots {
		p := progress[b.ID]
		state, err := f.State(ctx, nodes[b.Node], p)
		if err != nil {
			return out, err
		}
		if state != trace.Failed && state != trace.Degraded {
			continue
		}
		if looked++; looked > faultsMost {
			break
		}
		events, err := f.registry.Events(ctx, registry.EventFilter{Boot: b.ID})
		if err != nil {
			return out, err
		}
		fault, err := f.Of(ctx, b, p, events)
		if err != nil {
			return out, err
		}
		if fault != nil {
			view := fleetview.Boot(b, p, state)
			view.Fault = fault
			out = append(out, view)
		}
	}
	slices.SortFunc(out, func(a, b api.Boot) int {
		return cmp.Or(b.Fault.Since.Compare(a.Fault.Since), cmp.Compare(a.Node, b.Node))
	})
	return out, nil
}
