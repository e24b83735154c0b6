package server

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
	powerEvery = 20 * time.Second // timetables are looked at
	aliveEvery = time.Minute      // the server notes that it runs

	// sweepAfter is how long after its own start the server looks for nodes that have not come back: what was on
	// its way is then heard.
	sweepAfter = power.GivenUp

	// ranBefore: a node ran when the power went if its last sign was so shortly before the server's own. What the
	// registry has of signs is some minutes old.
	ranBefore = 20 * time.Minute
)

// run looks after timetables, and once after nodes that a power cut took, until ctx ends.
func (p *powers) run(ctx context.Context) error {
	defer p.doing.Wait()
	before := p.alive(ctx)
	t := time.NewTicker(powerEvery)
	defer t.Stop()
	var noted time.Time
	swept := before.IsZero() // the first start of all
	for {
		if err := p.hours(ctx); err != nil && ctx.Err() == nil {
			p.log.Error("timetables were not looked after", "err", err)
		}
		if !swept && p.now().Sub(p.started) >= sweepAfter {
			swept = true
			p.doing.Go(func() { p.sweep(ctx, before) })
		}
		if p.now().Sub(noted) >= aliveEvery {
			noted = p.now()
			if err := p.registry.Update(ctx, func(tx *registry.Tx) error { return tx.PutAlive(noted) }); err != nil &&
				ctx.Err() == nil {
				p.log.Error("that the server runs was not noted", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// alive is when the server before this one last said that it runs.
func (p *powers) alive(ctx context.Context) (at time.Time) {
	err := p.registry.View(ctx, func(tx *registry.Tx) (err error) {
		at, err = tx.Alive()
		return err
	})
	if err != nil && ctx.Err() == nil {
		p.log.Error("when the server ran last is not known", "err", err)
	}
	return at
}

// hours switches what timetables say since they were looked at last. What a server that was away has missed is made
// up for, if it is the last thing that the timetable said; a timetable that is new begins with its next time.
func (p *powers) hours(ctx context.Context) error {
	now := p.now()
	var due []powered
	var ons []bool
	err := p.registry.Update(ctx, func(tx *registry.Tx) error {
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

// marksEvery is how often it is written down that nothing was to be switched.
const marksEvery = 10 * time.Minute

// fresh reports whether what is noted of timetables need not be written anew.
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

// each does something to nodes one after another, at the pace at which machines may start. Those that are asked to
// shut down take until they speak, so they are asked side by side.
func (p *powers) each(ctx context.Context, nodes []powered, do func(int) api.PowerDo, who string) {
	for i, x := range nodes {
		if ctx.Err() != nil {
			return
		}
		what := do(i)
		p.doing.Go(func() {
			if _, err := p.do(ctx, x, what, who); err != nil && ctx.Err() == nil {
				p.log.Warn(
					"a node was not switched",
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

// sweep wakes the nodes of groups that want it, which ran when the server before this one was last alive, and have
// given no sign since.
func (p *powers) sweep(ctx context.Context, before time.Time) {
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
			p.log.Error("no node was woken after the start", "err", err)
		}
		return
	}
	if len(lost) > 0 {
		p.log.Info(
			"nodes have not come back since the server was away: they are woken",
			"nodes",
			len(lost),
			"away_since",
			before,
		)
		p.each(ctx, lost, func(int) api.PowerDo { return api.PowerDo{Action: api.PowerWake} }, "the server's start")
	}
}
