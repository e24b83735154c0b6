package loglimit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"pando/internal/ratelimit"
)

// Bounds for each kind of warning: a burst, then one in each interval. The message of a warning is its kind.
const (
	burst    = 100
	interval = 10 * time.Second
	maxKinds = 1000 // kinds that are counted separately; all others count as one
)

// handler passes records on to another handler.
type handler struct {
	slog.Handler
	state *state
	now   func() time.Time
}

// state is shared by a handler and those that its With methods return.
type state struct {
	mu    sync.Mutex
	kinds map[string]*kind
}

type kind struct {
	bucket *ratelimit.Bucket
	held   int // dropped since the last one that passed
}

// New returns a handler that passes records on to h, within the bounds.
func New(h slog.Handler, now func() time.Time) slog.Handler {
	return &handler{h, &state{kinds: map[string]*kind{}}, now}
}

// Handle passes a record on, or drops and counts it.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level != slog.LevelWarn {
		return h.Handler.Handle(ctx, r)
	}
	held, pass := h.state.take(r.Message, h.now())
	if !pass {
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("not_logged", held))
	}
	return h.Handler.Handle(ctx, r)
}

// take reports whether one more warning of a kind may pass, and how many were dropped since the last that did.
func (s *state) take(message string, now time.Time) (held int, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds[message] == nil && len(s.kinds) >= maxKinds {
		message = ""
	}
	k := s.kinds[message]
	if k == nil {
		k = &kind{bucket: ratelimit.New(burst, 1/interval.Seconds())}
		s.kinds[message] = k
	}
	if !k.bucket.Take(now) {
		k.held++
		return 0, false
	}
	held, k.held = k.held, 0
	return held, true
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs), h.state, h.now}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name), h.state, h.now}
}
