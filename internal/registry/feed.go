package registry

import (
	"context"
	"fmt"
	"sync"

	"pando/internal/trace"
)

// feed wakes followers. It has no queue that could overflow: each follower reads on in the file at its own pace.
type feed struct {
	mu   sync.Mutex
	last int64
	news chan struct{} // closed when last grows, or when the registry is closed
	end  bool
}

func (r *Registry) startFeed(ctx context.Context) error {
	r.feed.news = make(chan struct{})
	err := r.events.read.QueryRowContext(ctx, `SELECT coalesce(max(seq), 0) FROM events`).Scan(&r.feed.last)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.events.path, err)
	}
	return nil
}

func (f *feed) publish(seq int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end || seq <= f.last {
		return
	}
	f.last = seq
	close(f.news)
	f.news = make(chan struct{})
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end = true
	if f.news != nil {
		close(f.news)
	}
}

func (f *feed) state() (last int64, news <-chan struct{}, end bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.news, f.end
}

// Last returns the highest sequence number that was given.
func (r *Registry) Last() int64 {
	last, _, _ := r.feed.state()
	return last
}

// Follow calls fn for every event after a sequence number: first for stored events, then for new ones. It returns the
// error of fn or of ctx, or nil when the registry is closed.
func (r *Registry) Follow(ctx context.Context, after int64, fn func(trace.Event) error) error {
	const page, bytes = 256, 256 << 10 // what each follower holds in memory at a time
	for {
		last, news, end := r.feed.state()
		for after < last {
			events, more, err := r.page(ctx, EventFilter{After: after, Limit: page, Bytes: bytes})
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := fn(e); err != nil {
					return err
				}
				after = e.Seq
			}
			if !more {
				after = max(after, last)
			}
		}
		if end {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
