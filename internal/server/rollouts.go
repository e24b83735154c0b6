package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hooks"
	"pando/internal/lastseen"
	"pando/internal/nodecommand"
	"pando/internal/registry"
	"pando/internal/rollout"
	"pando/internal/trace"
)

// How often rollouts are looked after: soon when something happened, and now and then when nothing did, for time
// passes too.
const (
	rolloutLook  = time.Second
	rolloutEvery = 10 * time.Second // less than the rollout's clock takes as one step
)

// heardWithin is how long ago a node that is up may have said its last word; it says one about every minute.
const heardWithin = 3 * time.Minute

// rollouts looks after the rollouts that are live: it sees what their nodes do, steps, keeps the outcome, and acts.
type rollouts struct {
	registry *registry.Registry
	errands  *nodecommand.Queue
	heard    *lastseen.Times
	methods  *methods
	hooks    string                // directory of hooks
	zone     func() *time.Location // of windows that name none
	now      func() time.Time
	log      *slog.Logger

	stepping sync.Mutex // one step at a time
	wake     chan struct{}
	seen     int64     // the last event that was looked at
	last     time.Time // the last look

	mu      sync.Mutex
	asked   map[fleet.BootID]bool   // boots that are being asked to end
	refused map[fleet.BootID]string // why boots did not end
	staged  map[fleet.BootID]bool   // boots that were asked to fetch ahead
	staging int                     // that are being asked to
	runs    map[string]*hookRuns    // of live rollouts
	doing   sync.WaitGroup
}

func newRollouts(s *Server) *rollouts {
	return &rollouts{
		registry: s.registry,
		errands:  s.errands,
		heard:    s.heard,
		methods:  s.methods,
		hooks:    filepath.Join(s.cfg.Dir, hooks.Dir),
		zone:     func() *time.Location { return time.Local },
		now:      s.now,
		log:      s.log,
		wake:     make(chan struct{}, 1),
		asked:    map[fleet.BootID]bool{},
		refused:  map[fleet.BootID]string{},
		staged:   map[fleet.BootID]bool{},
		runs:     map[string]*hookRuns{},
	}
}

// run looks after rollouts until ctx ends.
func (d *rollouts) run(ctx context.Context) error {
	defer d.doing.Wait()
	t := time.NewTicker(rolloutLook)
	defer t.Stop()
	for {
		woken := false
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
			woken = true
		case <-t.C:
		}
		if last := d.registry.Last(); woken || last != d.seen || time.Since(d.last) >= rolloutEvery {
			d.seen, d.last = last, time.Now()
			if err := d.look(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("rollouts were not looked after", "err", err)
			}
		}
	}
}

// nudge has rollouts looked at now.
func (d *rollouts) nudge() {
	select {
	case d.wake <- struct{}{}:
	default: // it is on its way already
	}
}

// look steps every rollout that is live.
func (d *rollouts) look(ctx context.Context) error {
	d.stepping.Lock()
	defer d.stepping.Unlock()
	var live []fleet.Rollout
	err := d.registry.View(ctx, func(tx *registry.Tx) (err error) {
		live, err = tx.Rollouts(registry.RolloutFilter{Live: true})
		return err
	})
	for _, r := range live {
		err = errors.Join(err, d.step(ctx, r.ID))
	}
	d.forget(live)
	return err
}

// step takes one rollout a step on. What it comes to is kept first, then acted upon: whatever is lost in between,
// the next step says again.
func (d *rollouts) step(ctx context.Context, id string) error {
	var o rollout.Observed
	err := d.registry.View(ctx, func(tx *registry.Tx) error {
		r, err := tx.Rollout(id)
		if err == nil {
			o, err = d.observe(ctx, tx, r)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("rollout %s: %w", id, err)
	}
	var next fleet.Rollout
	var act rollout.Actions
	err = d.registry.Update(ctx, func(tx *registry.Tx) error {
		r, err := tx.Rollout(id)
		if err != nil {
			return err
		}
		next, act = rollout.Step(r, o, d.now())
		if err := tx.PutRollout(next, r.Nodes); err != nil || act.Image == "" {
			return err
		}
		return endRollout(tx, next, act.Image)
	})
	if err != nil {
		return fmt.Errorf("rollout %s: %w", id, err)
	}
	d.tell(ctx, next, act.Notes)
	d.act(ctx, next, o, act)
	return nil
}

// endRollout gives the group the image that the rollout came to. A group that is back at the version before keeps
// the name by which it desired it, as long as that name means this version still.
func endRollout(tx *registry.Tx, r fleet.Rollout, is fleet.Ref) error {
	g, err := tx.Group(r.Group)
	if fleetview.Absent(err) {
		return nil // it was deleted with its last node
	}
	if err != nil {
		return err
	}
	_, _, want, err := is.Split()
	if err != nil {
		return err
	}
	if has, err := tx.Resolve(g.Image); err == nil && has == want {
		return nil
	}
	g.Image = is
	return tx.PutGroup(g)
}

// tell puts what happened into the stream of events.
func (d *rollouts) tell(ctx context.Context, r fleet.Rollout, notes []rollout.Note) {
	var events []trace.Event
	for _, n := range notes {
		kind := trace.Info
		if n.Bad {
			kind = trace.Fail
		}
		events = append(
			events,
			trace.Event{Time: d.now(), Node: n.Node, Stage: trace.Rollout, Kind: kind, Message: n.Message,
				Attrs: map[string]string{"rollout": r.ID, "group": r.Group}},
		)
		if n.Node == "" {
			d.log.Info("rollout "+r.ID, "state", r.State, "what", n.Message)
		}
	}
	if _, err := d.registry.Append(ctx, events...); err != nil && ctx.Err() == nil {
		d.log.Error("events of a rollout were not recorded", "rollout", r.ID, "err", err)
	}
}

// observe is what is seen of a rollout's nodes now.
func (d *rollouts) observe(ctx context.Context, tx *registry.Tx, r fleet.Rollout) (rollout.Observed, error) {
	o := rollout.Observed{Nodes: map[string]rollout.Node{}, Results: d.results(r.ID)}
	var err error
	if o.Open, err = d.open(r.Plan); err != nil {
		return o, err
	}
	if slices.Contains(r.Plan.Gates, fleet.GateSpeed) {
		_, _, from, _ := r.From.Split() // what a rollout has was taken apart when it began
		_, _, to, _ := r.To.Split()
		if o.Slower, err = slower(ctx, d.registry, r.Group, from, to); err != nil {
			return o, err
		}
	}
	nodes, err := fleetview.Followers(tx, r.Group)
	if err != nil {
		return o, err
	}
	boots, err := tx.LatestBoots()
	if err != nil {
		return o, err
	}
	var ids []fleet.BootID
	for _, n := range nodes {
		ids = append(ids, boots[n.Name].ID)
	}
	progress, err := d.registry.Progress(ctx, ids...)
	if err != nil {
		return o, err
	}
	for _, n := range nodes {
		b, ok := boots[n.Name]
		if !ok {
			o.Nodes[n.Name] = rollout.Node{}
			continue
		}
		if o.Nodes[n.Name], err = d.observeNode(n, b, progress[b.ID]); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (d *rollouts) observeNode(n fleet.Node, b registry.Boot, p registry.Progress) (rollout.Node, error) {
	view := api.Node{Node: n}
	if err := fleetview.AddBoot(&view, b, p); err != nil {
		return rollout.Node{}, err
	}
	heard := d.now().Sub(d.heard.Seen(n)) <= heardWithin
	out := rollout.Node{Boot: b.ID, Version: b.Version, Failure: p.Failure, Speaks: heard && !b.Session.IsZero()}
	if heard && p.State == trace.Up {
		out.Up, out.Running = true, view.Running
	}
	if view.Status != nil {
		out.Staged = view.Status.Staged
	}
	if s := view.Status; s != nil && s.Systemd != nil {
		out.Told, out.Units = true, s.Systemd.Failed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out.Refused = d.refused[b.ID]
	return out, nil
}

// open reports whether nodes may be taken now.
func (d *rollouts) open(p fleet.RolloutPlan) (bool, error) {
	zone := d.zone()
	if p.Zone != "" {
		var err error
		if zone, err = time.LoadLocation(p.Zone); err != nil {
			return false, err
		}
	}
	for _, w := range p.Windows {
		if w.Open(d.now().In(zone)) {
			return true, nil
		}
	}
	return len(p.Windows) == 0, nil
}

// act does what a step wants, beside what is under way already.
func (d *rollouts) act(ctx context.Context, r fleet.Rollout, o rollout.Observed, a rollout.Actions) {
	for _, ask := range a.Reboot {
		d.reboot(ctx, ask)
	}
	for _, ask := range a.Stage {
		d.stage(ctx, ask)
	}
	for _, h := range a.Run {
		d.runHook(ctx, r, h)
	}
}

// reboot asks a node for the end of a boot. The errand is named after the boot, so that it is done once.
func (d *rollouts) reboot(ctx context.Context, ask rollout.Ask) {
	boot := ask.Boot
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[boot] {
		return
	}
	d.asked[boot] = true
	d.doing.Go(func() {
		method, err := d.method(ctx, ask)
		var rep api.ErrandReport
		if err == nil {
			kind, _ := errandOf(method)
			rep, err = d.errands.Do(ctx, boot, api.Errand{ID: string(method) + "-" + string(boot), Kind: kind})
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.asked, boot)
		if err == nil && rep.Error != "" {
			d.refused[boot] = rep.Error
		}
		d.nudge()
	})
}

// method is the way to the next boot that a rollout means, where it leaves the choice. Of a node of which nothing
// can be found out it is the one that needs nothing.
func (d *rollouts) method(ctx context.Context, ask rollout.Ask) (fleet.BootMethod, error) {
	n, b, err := d.asks(ctx, ask)
	if err != nil {
		return "", err
	}
	is, why, err := d.methods.choose(ctx, ask.Method, n, b)
	if err != nil {
		d.log.Warn("a node reboots by its firmware", "node", n.Name, "err", err)
		return fleet.MethodReboot, nil
	}
	d.log.Info("a node goes to its next boot", "node", n.Name, "method", is, "why", why)
	return is, nil
}

// asks is the node and the boot that a request is about.
func (d *rollouts) asks(ctx context.Context, ask rollout.Ask) (n fleet.Node, b registry.Boot, err error) {
	err = d.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if n, err = tx.Node(ask.Node); err == nil {
			b, err = tx.Boot(ask.Boot)
		}
		return err
	})
	return n, b, err
}

// forget drops what was remembered for rollouts that have ended.
func (d *rollouts) forget(live []fleet.Rollout) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(live) == 0 {
		clear(d.refused)
		clear(d.staged)
	}
	ids := map[string]bool{}
	for _, r := range live {
		ids[r.ID] = true
	}
	for id := range d.runs {
		if !ids[id] {
			delete(d.runs, id)
		}
	}
}
