package server

import (
	"context"
	"fmt"

	"pando/internal/trace"
)

// maxWaiting bounds the events of a boot that has no record yet.
const maxWaiting = 16

// record is the way of every server event into the registry. It fills in whose event it is. History that cannot
// be written stops no boot: the failure is logged. The boot's mu is held.
func (s *Server) record(ctx context.Context, c *current, events ...trace.Event) {
	for i := range events {
		e := &events[i]
		if e.Time.IsZero() {
			e.Time = s.now()
		}
		e.Boot, e.Node, e.MAC = c.boot.ID, c.boot.Node, c.mac
	}
	if !c.saved {
		if len(c.waiting)+len(events) <= maxWaiting {
			c.waiting = append(c.waiting, events...)
		}
		return
	}
	all := append(c.waiting, events...)
	c.waiting = nil
	if _, err := s.registry.Append(ctx, all...); err != nil {
		s.log.Error("events lost", "node", c.boot.Node, "boot", c.boot.ID, "mac", c.mac, "err", err)
	}
}

// fail records that a stage failed, unless the same failure was the last one. The boot's mu is held.
func (s *Server) fail(ctx context.Context, c *current, stage trace.Stage, message, hint string) {
	if c.failure == string(stage)+message {
		return
	}
	c.failure = string(stage) + message
	s.record(ctx, c, trace.Event{Stage: stage, Kind: trace.Fail, Message: message, Hint: hint})
}

func bytesK(n int64) map[string]int64 { return map[string]int64{trace.SourceK: n} }

func bytesText(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
