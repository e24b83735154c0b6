package metrics

import (
	"context"
	"log/slog"
)

// Log counts the lines that go through a handler, by level.
func (s *Site) Log(h slog.Handler) slog.Handler { return counting{h, s} }

type counting struct {
	slog.Handler
	site *Site
}

// Handle counts the record and passes it on.
func (c counting) Handle(ctx context.Context, r slog.Record) error {
	level := "info"
	switch {
	case r.Level >= slog.LevelError:
		level = "error"
	case r.Level >= slog.LevelWarn:
		level = "warn"
	case r.Level < slog.LevelInfo:
		level = "debug"
	}
	c.site.logged.WithLabelValues(level).Inc()
	return c.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that also counts.
func (c counting) WithAttrs(a []slog.Attr) slog.Handler {
	return counting{c.Handler.WithAttrs(a), c.site}
}

// WithGroup returns a handler that also counts.
func (c counting) WithGroup(name string) slog.Handler {
	return counting{c.Handler.WithGroup(name), c.site}
}
