package bootlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Bounds of events that are written after the reply.
const (
	maxBehind  = 16384           // waiting events; further ones are lost, and logged
	RecordTime = 2 * time.Second // time to write the events of one boot without a request
	flushTime  = 3 * time.Second // time to write all waiting events when the server stops
)

var errBehind = errors.New("history is written too slowly: too many events wait")

// queued is an event that waits to be written.
type queued struct {
	trace.Event
	ends bool // it ends its boot, if that has not ended: see conclusion
}

// queue holds events that are written after the reply, in order. Each has a place; places are counted from 1.
type queue struct {
	wake    chan struct{} // signals that there are events; sending never blocks
	writing chan struct{} // held by the goroutine that writes

	mu      sync.Mutex
	events  []queued
	put     uint64 // place of the last added event
	written uint64 // place of the last event that was written or lost
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
}

// add appends events and returns the place of the last one.
func (q *queue) add(events []trace.Event, ends bool) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events)+len(events) > maxBehind {
		return 0, errBehind
	}
	for _, e := range events {
		q.events = append(q.events, queued{e, ends})
	}
	q.put += uint64(len(events))
	select {
	case q.wake <- struct{}{}:
	default: // the writer has not yet looked since it was last woken
	}
	return q.put, nil
}

// waits reports whether the event at a place is not written yet.
func (q *queue) waits(place uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return place > q.written
}

// batch returns all waiting events.
func (q *queue) batch() []queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.events)
}

// drop removes the first n events: they are written, or lost.
func (q *queue) drop(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = q.events[n:]
	q.written += uint64(n)
}

// flush writes the waiting events, if the event at a place is among them. Events stay in the queue when ctx ends
// meanwhile.
func (b *Boots) flush(ctx context.Context, place uint64) error {
	if !b.behind.waits(place) {
		return nil
	}
	select {
	case b.behind.writing <- struct{}{}:
		defer func() { <-b.behind.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for batch := b.behind.batch(); len(batch) > 0; {
		n := slices.IndexFunc(batch, func(e queued) bool { return e.ends != batch[0].ends })
		if n < 0 {
			n = len(batch)
		}
		err := b.write(ctx, batch[:n])
		if ctx.Err() != nil && err != nil {
			return err
		}
		if err != nil {
			b.log.Error("events lost", "events", n, "err", err)
		}
		b.behind.drop(n)
		batch = batch[n:]
	}
	return nil
}

// write appends events to the history. Of those that end their boots it needs the history before.
func (b *Boots) write(ctx context.Context, all []queued) error {
	events := make([]trace.Event, 0, len(all))
	var known map[fleet.BootID]registry.Progress
	if all[0].ends {
		ids := make([]fleet.BootID, len(all))
		for i, e := range all {
			ids[i] = e.Boot
		}
		var err error
		if known, err = b.registry.Progress(ctx, ids...); err != nil {
			return err
		}
	}
	for _, e := range all {
		ended := false
		if e.ends {
			e.Event, ended = conclusion(e.Event, known[e.Boot])
		}
		if !ended {
			events = append(events, e.Event)
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err := b.registry.Append(ctx, events...)
	return err
}

// Flush writes all events that wait at this moment. Call it before reading a timeline.
func (b *Boots) Flush(ctx context.Context) error {
	b.behind.mu.Lock()
	place := b.behind.put
	b.behind.mu.Unlock()
	return b.flush(ctx, place)
}

// Run writes waiting events until ctx ends, and then the rest.
func (b *Boots) Run(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return b.Flush(writing)
		case <-b.behind.wake:
			_ = b.Flush(writing) // what could not be written is tried again when the server stops
		}
	}
}
