package metrics

import (
	"context"
	"errors"
	"log/slog"

	"pando/internal/fleet"
	"pando/internal/metrics"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Follower counts the events of boots for the metrics and logs them.
type Follower struct {
	registry *registry.Registry
	metrics  *metrics.Site
	log      *slog.Logger
}

// NewFollower returns a Follower.
func NewFollower(reg *registry.Registry, m *metrics.Site, log *slog.Logger) *Follower {
	return &Follower{registry: reg, metrics: m, log: log}
}

// Run follows events until ctx ends or the registry closes. It starts with the next event: earlier ones were counted by
// the previous process.
func (f *Follower) Run(ctx context.Context) error {
	err := f.registry.Follow(ctx, f.registry.Last(), func(e trace.Event) error {
		f.write(ctx, e)
		if err := f.metrics.Event(e, pastOf{ctx, f.registry}); err != nil && ctx.Err() == nil {
			f.log.Error("event cannot be counted for the metrics", "boot", e.Boot, "node", e.Node, "err", err)
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// write logs an event: failed boots as warnings, finished and ended boots as information, other steps for debugging.
func (f *Follower) write(ctx context.Context, e trace.Event) {
	if e.Boot == "" {
		return
	}
	args := []any{"node", e.Node, "boot", e.Boot, "mac", e.MAC, "stage", e.Stage}
	for _, a := range []struct{ key, value string }{{"message", e.Message}, {"hint", e.Hint}} {
		if a.value != "" {
			args = append(args, a.key, a.value)
		}
	}
	switch {
	case e.Kind == trace.Fail:
		f.log.WarnContext(ctx, "boot failed", args...)
	case e.Stage == trace.Booted && e.Kind == trace.End:
		f.log.InfoContext(ctx, "booted", args...)
	case e.Stage == trace.Shutdown && e.Kind == trace.End:
		f.log.InfoContext(ctx, "node shuts down", args...)
	default:
		f.log.DebugContext(ctx, "boot "+string(e.Kind), args...)
	}
}

// pastOf reads the recorded history of boots.
type pastOf struct {
	ctx context.Context
	reg *registry.Registry
}

// Before returns the progress of a boot as of just before an event.
func (p pastOf) Before(e trace.Event) (trace.Progress, error) {
	var out trace.Progress
	events, err := p.reg.Events(p.ctx, registry.EventFilter{Boot: e.Boot})
	for _, old := range events {
		if old.Seq < e.Seq {
			out.Apply(old)
		}
	}
	return out, err
}

// Run returns what a boot runs. A boot without a record counts for no image, and a boot without a node's record for no
// group.
func (p pastOf) Run(id fleet.BootID) (run metrics.Run, err error) {
	err = p.reg.View(p.ctx, func(tx *registry.Tx) error {
		b, err := tx.Boot(id)
		if err != nil {
			return err
		}
		run = runOf(b)
		n, err := tx.Node(b.Node)
		run.Group = n.Group
		return err
	})
	if errors.Is(err, registry.ErrNotFound) {
		err = nil
	}
	return run, err
}

// runOf returns what a boot runs, without its group.
func runOf(b registry.Boot) metrics.Run {
	name, _, _, _ := b.Image.Split() // a boot whose image name is not valid never booted
	return metrics.Run{Image: name, Version: b.Version.Short()}
}
