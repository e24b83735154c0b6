package server

import (
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

// Bounds of the search for boots that have something wrong with them.
const (
	// that are looked at more closely: a site where more fail has one reason for them all
	faultsMost   = 1000
	statusFaults = 10               // in the status of the site
	quietLeast   = 40 * time.Second // a boot that went on this short ago is not looked at
	habitsEvery  = time.Minute      // how often it is looked up how long boots usually take
	habitsOf     = 300              // from so many of the latest boots
	listEvery    = time.Second      // however many browsers ask, and no more than a part of the time
	listPart     = 10
)

// faults finds boots that have something wrong with them.
type faults struct {
	registry *registry.Registry
	now      func() time.Time

	mu     sync.Mutex
	looked time.Time
	habits map[string]map[trace.Stage]time.Duration // by group

	listing sync.Mutex // one looks, the others wait for what it finds
	listed  time.Time
	took    time.Duration // by the last look
	found   []api.Boot
}

// usual is how long the stages of a group's boots take.
func (f *faults) usual(ctx context.Context, group string) (map[trace.Stage]time.Duration, error) {
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

// of is what is wrong with a boot, nil if nothing is.
func (f *faults) of(
	ctx context.Context,
	b registry.Boot,
	p registry.Progress,
	events []trace.Event,
) (*api.Fault, error) {
	facts := trace.Facts{}
	if units, ok := failedUnits(p); ok {
		facts.FailedUnits = units
	}
	n, err := f.node(ctx, b.Node)
	if err != nil {
		return nil, err
	}
	if facts.Usual, err = f.usual(ctx, n.Group); err != nil {
		return nil, err
	}
	d, ok := trace.Diagnose(events, facts, f.now())
	if !ok {
		return nil, nil
	}
	return &api.Fault{Kind: d.Fault, Stage: d.Stage, Since: d.Since, Text: d.Text, Do: d.Do}, nil
}

// node is the zero Node for a boot that is nobody's.
func (f *faults) node(ctx context.Context, name string) (n fleet.Node, err error) {
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

func failedUnits(p registry.Progress) ([]string, bool) {
	if len(p.Status) == 0 {
		return nil, false
	}
	var st api.NodeStatus
	if json.Unmarshal(p.Status, &st) != nil || st.Systemd == nil {
		return nil, false
	}
	return st.Systemd.Failed, len(st.Systemd.Failed) > 0
}

// list is the latest boots of nodes, of some or of all (nil), that have something wrong with them: the newest
// trouble first.
func (f *faults) list(ctx context.Context, wanted map[string]bool) ([]api.Boot, error) {
	f.listing.Lock()
	defer f.listing.Unlock()
	if now := time.Now(); f.found == nil || now.Sub(f.listed) >= max(listEvery, listPart*f.took) {
		found, err := f.all(registry.Whole(ctx)) // which answers others too
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

// all looks at the latest boots of all nodes.
func (f *faults) all(ctx context.Context) ([]api.Boot, error) {
	var boots map[string]registry.Boot
	err := f.registry.View(ctx, func(tx *registry.Tx) (err error) {
		boots, err = tx.LatestBoots()
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
		if !f.suspicious(b, p) {
			continue
		}
		if looked++; looked > faultsMost {
			break
		}
		events, err := f.registry.Events(ctx, registry.EventFilter{Boot: b.ID})
		if err != nil {
			return out, err
		}
		fault, err := f.of(ctx, b, p, events)
		if err != nil {
			return out, err
		}
		if fault != nil {
			view := fleetview.Boot(b, p)
			view.Fault = fault
			out = append(out, view)
		}
	}
	slices.SortFunc(out, func(a, b api.Boot) int {
		return cmp.Or(b.Fault.Since.Compare(a.Fault.Since), cmp.Compare(a.Node, b.Node))
	})
	return out, nil
}

// suspicious picks, from a boot's one line, those whose events are worth a look.
func (f *faults) suspicious(b registry.Boot, p registry.Progress) bool {
	switch p.State {
	case trace.Failed:
		return true
	case trace.Up:
		_, some := failedUnits(p)
		return some || p.Panic
	case trace.Down:
		return false
	}
	if p.Stage == trace.Script && b.Scripted.IsZero() {
		return p.Panic // it waits for its turn, or for an operator
	}
	return p.Panic || f.now().Sub(b.Started) > quietLeast
}
