package rollouts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/bootmethod"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/lastseen"
	"pando/internal/registry"
	"pando/internal/rollout"
	"pando/internal/store"
	"pando/internal/trace"
	"pando/internal/versions"
)

// How often rollouts are stepped: soon after an event, and at intervals without one, because windows and deadlines pass
// too.
const (
	rolloutLook  = time.Second
	rolloutEvery = 10 * time.Second // must be less than the longest time that the rollout's clock counts for one step
)

// Commands sends commands to running nodes.
type Commands interface {
	Do(context.Context, fleet.BootID, api.NodeCommand) (api.NodeCommandReport, error)
}

// Slower describes how much slower a group's boots of one version are than those of another, "" if they are not.
type Slower func(ctx context.Context, group string, before, after fleet.Digest) (string, error)

// Config is what a Runner needs.
type Config struct {
	Registry *registry.Registry
	Store    *store.Dir
	Versions *versions.Cache
	Views    fleetview.Nodes
	Commands Commands
	Methods  *bootmethod.Chooser
	Slower   Slower
	Hooks    string // directory of hooks
	Now      func() time.Time
	Log      *slog.Logger
}

// Runner carries out rollouts: it observes their nodes, steps the state machine, records the result, and acts.
type Runner struct {
	registry *registry.Registry
	store    *store.Dir
	versions *versions.Cache
	views    fleetview.Nodes
	commands Commands
	methods  *bootmethod.Chooser
	slower   Slower
	hooks    string
	zone     func() *time.Location // time zone of windows that name none
	now      func() time.Time
	log      *slog.Logger

	stepping sync.Mutex // one step at a time
	wake     chan struct{}
	seen     int64     // sequence number of the last event that was seen
	last     time.Time // time of the last call of Look

	mu      sync.Mutex
	asked   map[fleet.BootID]bool   // boots whose nodes are being told to reboot
	refused map[fleet.BootID]string // why nodes refused to end boots
	staged  map[fleet.BootID]bool   // boots whose nodes were told to fetch ahead
	staging int                     // number of these commands that are running
	runs    map[string]*hookRuns    // of live rollouts
	doing   sync.WaitGroup
}

// New returns a Runner.
func New(c Config) *Runner {
	return &Runner{
		registry: c.Registry, store: c.Store, versions: c.Versions, views: c.Views, commands: c.Commands,
		methods: c.Methods, slower: c.Slower, hooks: c.Hooks, now: c.Now, log: c.Log,
		zone:    func() *time.Location { return time.Local },
		wake:    make(chan struct{}, 1),
		asked:   map[fleet.BootID]bool{},
		refused: map[fleet.BootID]string{},
		staged:  map[fleet.BootID]bool{},
		runs:    map[string]*hookRuns{},
	}
}

// Run carries out rollouts until ctx ends.
func (d *Runner) Run(ctx context.Context) error {
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
			if err := d.Look(ctx); err != nil && ctx.Err() == nil {
				d.log.Error("rollouts cannot be carried out", "err", err)
			}
		}
	}
}

// lookNow makes Run step the rollouts now.
func (d *Runner) lookNow() {
	select {
	case d.wake <- struct{}{}:
	default: // Run is woken already
	}
}

// Look steps every live rollout.
func (d *Runner) Look(ctx context.Context) error {
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

// step steps one rollout. It records the result before it acts on it. If the server stops in between, the next step
// requires the same actions again.
func (d *Runner) step(ctx context.Context, id string) error {
	var o rollout.Observed
	err := d.registry.View(ctx, func(tx *registry.Tx) error {
		r, err := tx.Rollout(id)
		if err == nil {
			o, err = d.Observe(ctx, tx, r)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("rollout %s: %w", id, err)
	}
	var next fleet.Rollout
	var act rollout.Actions
	var ends []rollout.Note
	err = d.registry.UpdateReserved(ctx, func(tx *registry.Tx) error {
		r, err := tx.Rollout(id)
		if err != nil {
			return err
		}
		next, act = rollout.Step(r, o, d.now())
		if err := tx.PutRollout(next, r.Nodes); err != nil || act.Image == "" {
			return err
		}
		if ends, err = endRollout(tx, next, act.Image, d.now()); err != nil || len(ends) == 0 {
			return err
		}
		for _, n := range ends {
			next.Reason = strings.TrimPrefix(next.Reason+"; "+n.Message, "; ")
		}
		return tx.PutRollout(next, next.Nodes)
	})
	if err != nil {
		return fmt.Errorf("rollout %s: %w", id, err)
	}
	d.tell(ctx, next, append(act.Notes, ends...))
	d.act(ctx, next, o, act)
	return nil
}

// tell records events about what happened.
func (d *Runner) tell(ctx context.Context, r fleet.Rollout, notes []rollout.Note) {
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
		d.log.Error("events of a rollout cannot be recorded", "rollout", r.ID, "err", err)
	}
}

// Observe returns the current state of a rollout's nodes.
func (d *Runner) Observe(ctx context.Context, tx *registry.Tx, r fleet.Rollout) (rollout.Observed, error) {
	o := rollout.Observed{Nodes: map[string]rollout.Node{}, Results: d.results(r.ID)}
	var err error
	if o.Open, err = d.open(r.Plan); err != nil {
		return o, err
	}
	if slices.Contains(r.Plan.Gates, fleet.GateSpeed) {
		_, _, from, _ := r.From.Split() // the references were checked when the rollout started
		_, _, to, _ := r.To.Split()
		if o.Slower, err = d.slower(ctx, r.Group, from, to); err != nil {
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

func (d *Runner) observeNode(n fleet.Node, b registry.Boot, p registry.Progress) (rollout.Node, error) {
	view := api.Node{Node: n}
	if err := fleetview.AddStatus(&view, b, p); err != nil {
		return rollout.Node{}, err
	}
	seen := d.now().Sub(d.views.LastSeen(n)) <= lastseen.Within
	out := rollout.Node{Boot: b.ID, Version: b.Version, Failure: p.Failure, Off: p.Off,
		Speaks: seen && !b.Session.IsZero()}
	if seen && p.State == trace.Up {
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

// open reports whether one of the plan's windows is open now, or there are none.
func (d *Runner) open(p fleet.RolloutPlan) (bool, error) {
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

// act carries out the actions of a step, unless they are running already.
func (d *Runner) act(ctx context.Context, r fleet.Rollout, o rollout.Observed, a rollout.Actions) {
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

// reboot makes a node end a boot. The command's ID contains the boot's ID, so that it is executed once.
func (d *Runner) reboot(ctx context.Context, ask rollout.Ask) {
	boot := ask.Boot
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked[boot] {
		return
	}
	d.asked[boot] = true
	d.doing.Go(func() {
		method, err := d.method(ctx, ask)
		var rep api.NodeCommandReport
		if err == nil {
			kind, _ := bootmethod.Command(method)
			rep, err = d.commands.Do(ctx, boot, api.NodeCommand{ID: string(method) + "-" + string(boot), Kind: kind})
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.asked, boot)
		if err == nil && rep.Error != "" {
			d.refused[boot] = rep.Error
		}
		d.lookNow()
	})
}

// method returns the boot method for the next boot. If the plan leaves the choice and nothing is known about the node,
// it is a reboot through firmware, which always works.
func (d *Runner) method(ctx context.Context, ask rollout.Ask) (fleet.BootMethod, error) {
	n, b, err := d.asks(ctx, ask)
	if err != nil {
		return "", err
	}
	is, why, err := d.methods.Choose(ctx, ask.Method, n, b)
	if err != nil {
		d.log.Warn("node reboots by its firmware", "node", n.Name, "err", err)
		return fleet.MethodReboot, nil
	}
	d.log.Info("node begins its next boot", "node", n.Name, "method", is, "why", why)
	return is, nil
}

// asks returns the node and the boot that an Ask names.
func (d *Runner) asks(ctx context.Context, ask rollout.Ask) (n fleet.Node, b registry.Boot, err error) {
	err = d.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if n, err = tx.Node(ask.Node); err == nil {
			b, err = tx.Boot(ask.Boot)
		}
		return err
	})
	return n, b, err
}

// forget deletes what is held in memory for ended rollouts.
func (d *Runner) forget(live []fleet.Rollout) {
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
