package power

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/power"
	"pando/internal/registry"
)

const (
	powerEvery = 20 * time.Second // how often timetables are checked
	aliveEvery = time.Minute      // how often the server records that it runs

	// WakeAfter is how long after its own start the server wakes nodes that have not come back.
	WakeAfter = power.GivenUp

	// ranBefore decides which nodes ran when the power was cut: those last seen at most this long before the server
	// itself. The registry's times are some minutes old.
	ranBefore = 20 * time.Minute
)

// Run switches nodes by their timetables until ctx ends. Once after the start it wakes the nodes that ran before a
// power cut.
func (p *Controller) Run(ctx context.Context) error {
	defer p.doing.Wait()
	before := p.LastAlive(ctx)
	t := time.NewTicker(powerEvery)
	defer t.Stop()
	var noted time.Time
	swept := before.IsZero() // nothing to wake at the server's very first start
	for {
		if err := p.SwitchByHours(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("timetables cannot be followed", "err", err)
		}
		if !swept && p.now().Sub(p.started) >= WakeAfter {
			swept = true
			p.doing.Go(func() { p.WakeLost(ctx, before) })
		}
		if p.now().Sub(noted) >= aliveEvery {
			noted = p.now()
			err := p.registry.UpdateReserved(ctx, func(tx *registry.Tx) error { return tx.PutAlive(noted) })
			if err != nil && ctx.Err() == nil {
				p.log.Error("time at which the server is alive cannot be recorded", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// LastAlive returns when a server last recorded that it runs, zero if never.
func (p *Controller) LastAlive(ctx context.Context) (at time.Time) {
	err := p.registry.View(ctx, func(tx *registry.Tx) (err error) {
		at, err = tx.Alive()
		return err
	})
	if err != nil && ctx.Err() == nil {
		p.log.Error("time at which the server was last alive cannot be read", "err", err)
	}
	return at
}

// SwitchByHours switches nodes at the times of their timetables that have passed since the last call. Of several times
// that passed while the server was stopped, only the last counts. A new timetable starts with its next time.
func (p *Controller) SwitchByHours(ctx context.Context) error {
	now := p.now()
	var due []powered
	var ons []bool
	err := p.registry.UpdateReserved(ctx, func(tx *registry.Tx) error {
		due, ons = nil, nil
		marks, err := tx.PowerHours()
		if err != nil {
			return err
		}
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(nodes, func(n fleet.Node) bool { return n.State != fleet.Adopted })
		all, err := p.of(tx, nodes)
		if err != nil {
			return err
		}
		used := map[fleet.Hours]bool{}
		for _, x := range all {
			if x.hours == nil {
				continue
			}
			hours := fleet.ValueOf(x.group.Hours)
			used[hours] = true
			upto, known := marks[hours]
			if !known {
				continue
			}
			edge, on, found := x.hours.Edge(upto.In(x.zone), now.In(x.zone))
			if found && (x.wish == nil || edge.After(x.wish.At)) {
				due, ons = append(due, x), append(ons, on)
			}
		}
		if len(due) == 0 && fresh(marks, used, now) {
			return registry.ErrDryRun
		}
		return tx.PutPowerHours(slices.Collect(maps.Keys(used)), now)
	})
	if err != nil {
		return err
	}
	if len(due) > 0 {
		p.doing.Go(func() {
			p.each(ctx, due, func(i int) api.PowerDo { return api.PowerDo{Action: onOrOff(ons[i])} }, "hours")
		})
	}
	return nil
}

// marksEvery is how often the time of the last call is recorded if nothing is switched.
const marksEvery = 10 * time.Minute

// fresh reports whether the recorded times are recent and belong to exactly the timetables in use.
func fresh(marks map[fleet.Hours]time.Time, used map[fleet.Hours]bool, now time.Time) bool {
	for h := range used {
		if at, ok := marks[h]; !ok || now.Sub(at) >= marksEvery {
			return false
		}
	}
	return len(marks) == len(used)
}

func onOrOff(on bool) api.PowerAction {
	if on {
		return api.PowerOn
	}
	return api.PowerOff
}

// each switches nodes one after another, with a pause between nodes that start. A shutdown waits for the node's answer,
// so nodes are shut down concurrently.
func (p *Controller) each(ctx context.Context, nodes []powered, do func(int) api.PowerDo, who string) {
	for i, x := range nodes {
		if ctx.Err() != nil {
			return
		}
		what := do(i)
		p.doing.Go(func() {
			if _, err := p.do(ctx, x, what, who); err != nil && ctx.Err() == nil {
				p.log.Warn(
					"node cannot be switched",
					"node",
					x.node.Name,
					"action",
					what.Action,
					"for",
					who,
					"err",
					err,
				)
			}
		})
		if what.Action != api.PowerOff {
			p.pace(ctx)
		}
	}
}

// WakeLost wakes nodes that ran when a server was last alive and were not seen since, in groups with that setting.
func (p *Controller) WakeLost(ctx context.Context, before time.Time) {
	var lost []powered
	err := p.registry.View(ctx, func(tx *registry.Tx) error {
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(nodes, func(n fleet.Node) bool { return n.State != fleet.Adopted })
		all, err := p.of(tx, nodes)
		for _, x := range all {
			on, known := p.wanted(x)
			quiet, ever := p.quiet(x)
			ran := ever && before.Sub(x.node.Seen) <= ranBefore
			if fleet.ValueOf(x.group.Sweep) && quiet >= power.GivenUp && (known && on || !known && ran) {
				lost = append(lost, x)
			}
		}
		return err
	})
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.log.Error("lost nodes cannot be woken", "err", err)
		}
		return
	}
	if len(lost) > 0 {
		p.log.Info(
			"waking nodes that have not come back since the server was away",
			"nodes",
			len(lost),
			"away_since",
			before,
		)
		p.each(ctx, lost, func(int) api.PowerDo { return api.PowerDo{Action: api.PowerWake} }, "the server's start")
	}
}
