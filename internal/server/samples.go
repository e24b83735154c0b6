package server

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"pando/internal/registry"
)

// How samples are taken: each second, but only while nodes are sent something, that is more than their signs of
// life need, and for a while after; and how many are recorded together.
const (
	sampleEvery = time.Second
	sampleLeast = 64 << 10 // bytes in a second
	sampleAfter = 15 * time.Second
	sampleBatch = 5
)

// sampler records what this server moves while nodes boot.
type sampler struct {
	registry *registry.Registry
	sent     *atomic.Int64
	now      func() time.Time
	log      *slog.Logger

	least int64 // bytes in a second that begin it: sampleLeast
	name  string
	last  moved
	busy  time.Time // when nodes were sent something last
	batch []registry.Sample
}

// moved is how much was moved until now.
type moved struct{ sent, read, written int64 }

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) error {
	var err error
	if s.name, err = os.Hostname(); err != nil {
		s.name = "server"
	}
	s.last = s.moved()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.put(context.WithoutCancel(ctx), s.batch)
			return nil
		case <-tick.C:
			s.put(ctx, s.step(s.now(), s.moved()))
		}
	}
}

// step takes a sample, if it is worth one, and returns those that are to be recorded now.
func (s *sampler) step(now time.Time, m moved) (full []registry.Sample) {
	d := moved{m.sent - s.last.sent, m.read - s.last.read, m.written - s.last.written}
	s.last = m
	if d.sent >= s.least {
		s.busy = now
	}
	active := !s.busy.IsZero() && now.Sub(s.busy) < sampleAfter
	if active {
		s.batch = append(
			s.batch,
			registry.Sample{
				Server:  s.name,
				At:      now.Truncate(sampleEvery),
				Width:   sampleEvery,
				Sent:    d.sent,
				Read:    d.read,
				Written: d.written,
			},
		)
	}
	if len(s.batch) >= sampleBatch || !active {
		full, s.batch = s.batch, nil
	}
	return full
}

// put records samples. What cannot be recorded is a gap in a curve, and no reason to stop.
func (s *sampler) put(ctx context.Context, batch []registry.Sample) {
	if len(batch) == 0 {
		return
	}
	if err := s.registry.PutSamples(ctx, batch...); err != nil && ctx.Err() == nil {
		s.log.Error("samples", "err", err)
	}
}

// moved reads the counters. Disk reads and writes are those that this program caused, as the kernel accounts them:
// what the page cache had is none. Where that is not told they are zero.
func (s *sampler) moved() moved {
	m := moved{sent: s.sent.Load()}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return m
	}
	for l := bufio.NewScanner(bytes.NewReader(text)); l.Scan(); {
		key, value, _ := strings.Cut(l.Text(), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case key == "read_bytes":
			m.read = n
		case key == "write_bytes":
			m.written = n
		}
	}
	return m
}
