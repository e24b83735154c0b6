package registry

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// maxPending bounds the bytes of events that are in memory because the disk is full.
const maxPending = 8 << 20

// pending are events that could not be written, in their order.
type pending struct {
	mu     sync.Mutex
	events []trace.Event
	bytes  int64
	lost   int
}

func (p *pending) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.events)
}

// keepPending keeps events in memory.
func (r *Registry) keepPending(events []trace.Event) {
	if lost := r.pending.add(events); lost > 0 {
		r.log.Error("events lost: the disk is full, and too many are in memory", "events", lost)
	}
}

// writePending writes the events that are in memory. Those that come meanwhile stay there for the next time.
func (r *Registry) writePending(ctx context.Context) error {
	for {
		events := r.pending.all()
		if len(events) == 0 {
			return nil
		}
		var last int64
		err := r.events.write(ctx, func(tx *sql.Tx) (err error) {
			last, err = r.append(ctx, tx, slices.Clone(events))
			return err
		})
		if err != nil {
			return fmt.Errorf("append %d events: %w", len(events), err)
		}
		r.pending.drop(len(events))
		r.feed.publish(last)
	}
}

// add keeps events, and returns how many were lost before, or now, for want of room.
func (p *pending) add(events []trace.Event) (lost int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		x, err := encode(e)
		if err != nil || p.bytes+int64(len(x.body)) > maxPending {
			p.lost++
			continue
		}
		p.events, p.bytes = append(p.events, e), p.bytes+int64(len(x.body))
	}
	return p.lost
}

// all returns what there is. It is not changed by others.
func (p *pending) all() []trace.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[:len(p.events):len(p.events)]
}

// drop forgets the first n, which are written.
func (p *pending) drop(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events = p.events[n:]; len(p.events) == 0 {
		p.events, p.bytes, p.lost = nil, 0, 0
	}
}

// of returns those of a boot.
func (p *pending) of(id fleet.BootID) (out []trace.Event) {
	for _, e := range p.all() {
		if e.Boot == id {
			out = append(out, e)
		}
	}
	return out
}
