package history

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

// A sample is taken each second while nodes receive more than their heartbeats need, and for a while after. Several are
// recorded together.
const (
	sampleEvery = time.Second
	sampleLeast = 64 << 10 // bytes a second
	sampleAfter = 15 * time.Second
	sampleBatch = 5
)

// Sampler records the server's traffic while nodes boot: bytes sent, and bytes read from and written to disk.
type Sampler struct {
	registry *registry.Registry
	sent     *atomic.Int64
	now      func() time.Time
	log      *slog.Logger

	least int64 // bytes a second that start a series
	name  string
	last  moved
	busy  time.Time // when the server last sent that much
	batch []registry.Sample
}

// NewSampler returns a Sampler. sent counts the bytes sent to nodes. least is how many bytes a second start a series of
// samples; 0: more than heartbeats need.
func NewSampler(
	reg *registry.Registry,
	sent *atomic.Int64,
	least int64,
	now func() time.Time,
	log *slog.Logger,
) *Sampler {
	if least == 0 {
		least = sampleLeast
	}
	return &Sampler{registry: reg, sent: sent, least: least, now: now, log: log}
}

// moved holds counters of bytes.
type moved struct{ sent, read, written int64 }

// Run samples until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
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

// step takes a sample while nodes receive data, and returns the samples that must be recorded now.
func (s *Sampler) step(now time.Time, m moved) (full []registry.Sample) {
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

// put records samples. A failure is logged and leaves a gap in the curve.
func (s *Sampler) put(ctx context.Context, batch []registry.Sample) {
	if len(batch) == 0 {
		return
	}
	if err := s.registry.PutSamples(ctx, batch...); err != nil && ctx.Err() == nil {
		s.log.Error("samples cannot be recorded", "err", err)
	}
}

// moved reads the counters. Disk reads and writes are those that the kernel accounts to this process in /proc/self/io,
// without the page cache; they are 0 if it cannot be read.
func (s *Sampler) moved() moved {
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
