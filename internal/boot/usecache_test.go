package boot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/cache"
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

// A partition becomes a cache once, unless it is too small; one whose first block is damaged keeps what it has.
func TestNewCache(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fill := func(size int64) {
		t.Helper()
		_, err := f.WriteAt([]byte("XFSB"), 0)
		if err := errors.Join(err, f.Truncate(size)); err != nil {
			t.Fatal(err)
		}
	}
	fill(cache.MinSize - 512)
	if _, err := newCache(f, "/dev/sdx1"); err == nil || !strings.Contains(hintOf(err), "larger") || contentOf(f) != "XFS" {
		t.Errorf("a small partition: %v, hint %q; it has %s", err, hintOf(err), contentOf(f))
	}
	fill(cache.MinSize)
	for boot, want := range []string{"new cache on /dev/sdx1, which had XFS", ""} {
		if made, err := newCache(f, "/dev/sdx1"); made != want || err != nil {
			t.Errorf("boot %d: %q, %v, want %q", boot, made, err, want)
		}
		if _, err := cache.Open(f, cache.MinSize, cache.Options{}); err != nil {
			t.Error(err)
		}
	}
	fill(cache.MinSize)
	if made, err := newCache(f, "/dev/sdx1"); made != "" || err != nil || contentOf(f) != "XFS" {
		t.Errorf("a cache whose first block is damaged: %q, %v; it has %s", made, err, contentOf(f))
	}
}

// wantNoCache wants a boot that said why it has no cache, with a hint, and nothing else.
func wantNoCache(t *testing.T, m *machine, why string) {
	t.Helper()
	events := m.report.take()
	if len(events) != 1 || events[0].Kind != trace.Info || events[0].Hint == "" || !strings.Contains(events[0].Message, why) {
		t.Errorf("events %+v, want one that says %q", events, why)
	}
}
