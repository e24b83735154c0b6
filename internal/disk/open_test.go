package disk

import (
	"errors"
	"os"
	"pando/internal/testkit/nodekit"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/problem"
)

// A partition that became smaller than its cache gets a new one, because the old one cannot be opened.
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
	sys := nodekit.SysTree(t, map[string]string{"class/block/sdx1/uevent": "PARTNAME=data\n"})
	c := &blockapi.CacheDisk{Name: "/dev/sdx1", File: f}
	if made, err := MakeNewCache(t.Context(), c, sys, 5*time.Second); made != "" || err != nil ||
		cache.Cut(f, now) != was {
		t.Errorf("one that has another name: %q, %v", made, err)
	}
	sys = nodekit.SysTree(t, map[string]string{"class/block/sdx1/uevent": "PARTNAME=" + cache.PartitionName + "\n"})
	for boot, want := range []string{"new cache on /dev/sdx1, which has 104 MB and had a cache of 209", ""} {
		if made, err := MakeNewCache(t.Context(), c, sys, 5*time.Second); made != want || err != nil {
			t.Errorf("boot %d: %q, %v, want %q", boot, made, err, want)
		}
		if _, err := cache.Open(f, now, cache.Options{}); err != nil {
			t.Error(err)
		}
	}
	if err := f.Truncate(cache.MinSize - 512); err != nil {
		t.Fatal(err)
	}
	if made, err := newCache(f, "/dev/sdx1"); err == nil || !strings.Contains(problem.HintOf(err), "larger") ||
		cache.Cut(f, cache.MinSize-512) == 0 {
		t.Errorf("one that is too small for any: %q, %v", made, err)
	}
}

// A partition is made a cache once, unless it is too small. A cache whose first block is damaged keeps its content.
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
	if _, err := newCache(f, "/dev/sdx1"); err == nil || !strings.Contains(problem.HintOf(err), "larger") ||
		ContentOf(f) != "XFS" {
		t.Errorf("a small partition: %v, hint %q; it has %s", err, problem.HintOf(err), ContentOf(f))
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
	if made, err := newCache(f, "/dev/sdx1"); made != "" || err != nil || ContentOf(f) != "XFS" {
		t.Errorf("a cache whose first block is damaged: %q, %v; it has %s", made, err, ContentOf(f))
	}
}
