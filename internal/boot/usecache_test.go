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

// A partition that became smaller than its cache is made one anew: that could not be opened at any boot.
func TestCacheOnASmallerPartition(t *testing.T) {
	const was, now = 200 << 20, 100<<20 + 512
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Truncate(was), cache.Format(f, was), f.Truncate(now)); err != nil {
		t.Fatal(err)
	}
	sys := sysTree(t, map[string]string{"class/block/sdx1/uevent": "PARTNAME=data\n"})
	c := &CacheDisk{Name: "/dev/sdx1", File: f}
	if made, err := c.makeNew(t.Context(), sys); made != "" || err != nil || cache.Cut(f, now) != was {
		t.Errorf("one that has another name: %q, %v", made, err)
	}
	sys = sysTree(t, map[string]string{"class/block/sdx1/uevent": "PARTNAME=" + cache.PartitionName + "\n"})
	for boot, want := range []string{"new cache on /dev/sdx1, which has 104 MB and had a cache of 209", ""} {
		if made, err := c.makeNew(t.Context(), sys); made != want || err != nil {
			t.Errorf("boot %d: %q, %v, want %q", boot, made, err, want)
		}
		if _, err := cache.Open(f, now, cache.Options{}); err != nil {
			t.Error(err)
		}
	}
	if err := f.Truncate(cache.MinSize - 512); err != nil {
		t.Fatal(err)
	}
	if made, err := newCache(f, "/dev/sdx1"); err == nil || !strings.Contains(hintOf(err), "larger") || cache.Cut(f, cache.MinSize-512) == 0 {
		t.Errorf("one that is too small for any: %q, %v", made, err)
	}
}

// A cache in memory takes no more than a quarter of it, whatever the group says, and the timeline tells.
func TestCacheInMemoryIsBounded(t *testing.T) {
	const gb = 1 << 30
	for _, x := range []struct {
		asked, memory, want int64
		text                string
	}{
		{64e6, 2 * gb, 64e6, ""},
		{2e9, 2 * gb, gb / 2, ", cache of 536 MB in memory and not of 2000: a quarter of what the node has"},
		{2e9, 16 * gb, 2e9, ""},
		{4e9, 0, 4e9, ""}, // the kernel does not say
	} {
		if got, text := cacheRAM(x.asked, x.memory); got != x.want || text != x.text {
			t.Errorf("%d of %d: %d, %q, want %d, %q", x.asked, x.memory, got, text, x.want, x.text)
		}
	}
	m := cacheMachine("")
	m.assignment.Store(&fleet.Assignment{Cache: &fleet.Cache{Kind: fleet.CacheRAM, Size: 1 << 50}})
	var c BlockConfig
	if text := m.useCache(t.Context(), sysfs, &c); !strings.Contains(text, "a quarter") || c.RAM <= 0 || c.RAM > machineMemory()/4 {
		t.Errorf("%q, %d bytes of %d", text, c.RAM, machineMemory())
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
