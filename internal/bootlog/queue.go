package bootlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"pando/internal/trace"
)

// Bounds of events that are written after the reply.
const (
	maxBehind  = 16384           // waiting events; further ones are lost, and logged
	RecordTime = 2 * time.Second // time to write the events of one boot without a request
	flushTime  = 3 * time.Second // time to write all waiting events when the server stops
)

var errBehind = errors.New("history is written too slowly: too many events wait")

// queue holds events that are written after the reply, in order. Each has a place; places are counted from 1.
type queue struct {
	wake    chan struct{} // signals that there are events; sending never blocks
	writing chan struct{} // held by the goroutine that writes

	mu      sync.Mutex
	events  []trace.Event
	put     uint64 // place of the last added event
	written uint64 // place of the last event that was written or lost
}

func newQueue() *queue {
	return &queue{wake: make(chan struct{}, 1), writing: make(chan struct{}, 1)}
}

// add appends events and returns the place of the last one.
func (q *queue) add(events []trace.Event) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events)+len(events) > maxBehind {
		return 0, errBehind
	}
	q.events = append(q.events, events...)
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
func (q *queue) batch() []trace.Event {
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
	batch := b.behind.batch()
	if len(batch) == 0 {
		return nil
	}
	_, err := b.registry.Append(ctx, batch...)
	if ctx.Err() != nil && err != nil {
		return err
	}
	if err != nil {
		b.log.Error("events lost", "events", len(batch), "err", err)
	}
	b.behind.drop(len(batch))
	return nil
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
