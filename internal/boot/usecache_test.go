package boot

import (
	"io"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// cacheMachine is a machine whose group keeps a cache on a disk, and that found this one.
func cacheMachine(device string) *machine {
	m := &machine{disks: &diskFinder{done: make(chan struct{}), name: device}, console: &console{kmsg: io.Discard},
		report: newReporter(nil), begun: map[trace.Stage]time.Time{}}
	close(m.disks.done)
	m.assignment.Store(&fleet.Assignment{Cache: &fleet.Cache{Kind: fleet.CacheDisk, Size: 80e6}})
	return m
}

// wantNoCache wants a boot that said why it has no cache, with a hint, and nothing else.
func wantNoCache(t *testing.T, m *machine, why string) {
	t.Helper()
	events := m.report.take()
	if len(events) != 1 || events[0].Kind != trace.Info || events[0].Hint == "" || !strings.Contains(events[0].Message, why) {
		t.Errorf("events %+v, want one that says %q", events, why)
	}
}
