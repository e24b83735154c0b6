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

// pending has events that could not be written, in order.
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
		r.log.Error("events lost: the disk is full, and the memory for events is full", "events", lost)
	}
}

// writePending writes the events that are in memory. Events that arrive meanwhile stay for the next call.
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

// add keeps events. It returns how many events were dropped, by this and earlier calls, because there was no room.
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

// all returns the events. The slice does not change afterwards.
func (p *pending) all() []trace.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[:len(p.events):len(p.events)]
}

// drop removes the first n events after they were written.
func (p *pending) drop(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.events = p.events[n:]; len(p.events) == 0 {
		p.events, p.bytes, p.lost = nil, 0, 0
	}
}

// of returns the events of a boot.
func (p *pending) of(id fleet.BootID) (out []trace.Event) {
	for _, e := range p.all() {
		if e.Boot == id {
			out = append(out, e)
		}
	}
	return out
}
