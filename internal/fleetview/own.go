package fleetview

import (
	"context"
	"pando/internal/registry"
	"pando/internal/trace"
	"slices"
	"time"
)

// OwnNodes returns the names of the nodes that the caller of a request may see, nil for all.
func OwnNodes(ctx context.Context, reg *registry.Registry) (map[string]bool, error) {
	if registry.LimitOf(ctx) == nil {
		return nil, nil
	}
	out := map[string]bool{}
	err := reg.View(ctx, func(tx *registry.Tx) error {
		nodes, err := tx.Nodes()
		for _, n := range nodes {
			out[n.Name] = true
		}
		return err
	})
	return out, err
}

// ownTime is how long an EventFilter uses one result of OwnNodes.
const ownTime = 2 * time.Second

// EventFilter decides which events a caller may see.
type EventFilter struct {
	ctx context.Context
	reg *registry.Registry
	own map[string]bool
	at  time.Time // when own was read
}

// NewEventFilter returns the filter for the caller of a request. ctx carries the caller's limits.
func NewEventFilter(ctx context.Context, reg *registry.Registry) *EventFilter {
	return &EventFilter{ctx: ctx, reg: reg}
}

// Shows reports whether an event is about a node or group that the caller may see. If that cannot be determined, the
// event is not shown.
func (f *EventFilter) Shows(e trace.Event) bool {
	groups := registry.LimitOf(f.ctx)
	if groups == nil {
		return true
	}
	if e.Node == "" {
		return e.Stage == trace.Rollout && slices.Contains(groups, e.Attrs["group"])
	}
	if now := time.Now(); f.own == nil || now.Sub(f.at) > ownTime {
		own, err := OwnNodes(f.ctx, f.reg)
		if err != nil {
			return false
		}
		f.own, f.at = own, now
	}
	return f.own[e.Node]
}
