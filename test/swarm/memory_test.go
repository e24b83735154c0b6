package swarm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/node/blockd"
)

// The root for measurements of memory, in extents of extentBlocks. The pack has two of three extents, each in its own
// piece.
const (
	extents      = 768
	extentBlocks = 64
)

// Limits of a daemon's memory in bytes, beside the pieces that it keeps. The aim is 24 MB, and 10 MB more in a swarm.
// The garbage collector is not exact.
const (
	mostAlone = 24e6
	mostSwarm = 31e6
	mostCache = 16e6 // in addition; half of it is data that waits to be written
)

// A daemon whose boot reads more than it may keep stays within its limits: without peers, with peers, and with reads at
// random places of the pack.
func TestMemory(t *testing.T) {
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("measures memory: PANDO_FULL is not set (make test-full sets it)")
	}
	o := newOrigin(t)
	for _, x := range []struct {
		name string
		keep int64
		with *blockapi.SwarmConfig
		disk bool
		most int64
	}{
		{"24 MiB", 24 << 20, nil, false, mostAlone},
		{"48 MiB", 48 << 20, nil, false, mostAlone},
		{"48 MiB in a swarm", 48 << 20, &blockapi.SwarmConfig{}, false, mostSwarm},
		{"24 MiB and a cache disk", 24 << 20, nil, true, mostAlone + mostCache},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			c := o.config
			c.Keep, c.Swarm = x.keep, x.with
			if x.disk {
				c.Disk = cacheDisk(t)
			}
			peak := o.boot(t, c)
			t.Logf(
				"%.1f MB, of which %.1f are pieces that it may keep: %.1f beside",
				mb(peak),
				mb(x.keep),
				mb(peak-x.keep),
			)
			if peak > x.keep+x.most {
				t.Errorf("%.1f MB beside the pieces, at most %.1f are allowed", mb(peak-x.keep), mb(x.most))
			}
			if peak < x.keep {
				t.Errorf("%.1f MB in all: it did not keep what it may", mb(peak))
			}
		})
	}
}

func mb(n int64) float64 { return float64(n) / 1e6 }

// origin is a server of one root and its boot pack.
type origin struct {
	raw     []byte
	objects map[string][]byte
	config  blockapi.Config
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{raw: make([]byte, extents*extentBlocks*chunk.BlockSize), objects: map[string][]byte{}}
	random := rand.NewChaCha8([32]byte{5})
	for off := 0; off < len(o.raw); off += chunk.BlockSize {
		_, _ = random.Read(o.raw[off:][:chunk.BlockSize/2]) // never fails; the other half is zeros
	}
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(raw []byte) chunk.Entry {
		stored, codec := enc.Encode(raw)
		return chunk.Entry{RawSize: len(raw), StoredSize: len(stored), Codec: codec, ID: o.put(stored)}
	}
	var chunks []chunk.Entry
	for off := 0; off < len(o.raw); off += chunk.DefaultChunkSize {
		chunks = append(chunks, entry(o.raw[off:][:chunk.DefaultChunkSize]))
	}
	index, err := chunk.NewIndex(chunks, chunk.DefaultChunkSize, enc)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range index.Pages {
		o.put(page)
	}
	p := bootpack.Map{Version: image.Version([]byte("v")), Sequence: 1}
	for i := range extents {
		if i%3 < 2 {
			at := uint32(extents-1-i) * extentBlocks // in another order than the root
			p.Extents = append(p.Extents, bootpack.Extent{Start: at, Blocks: extentBlocks})
			p.Pieces = append(p.Pieces, entry(o.raw[at*chunk.BlockSize:][:extentBlocks*chunk.BlockSize]))
		}
	}
	p.Extents = joined(p.Extents)
	p.Booted = len(p.Pieces)
	o.config = blockapi.Config{Index: o.put(index.Root), Size: int64(len(o.raw)), ChunkSize: chunk.DefaultChunkSize}
	if o.config.Pack, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	o.serve(t)
	return o
}

// joined joins adjacent extents, as the format requires.
func joined(all []bootpack.Extent) (out []bootpack.Extent) {
	for _, e := range all {
		if last := len(out) - 1; last >= 0 && out[last].End() == uint64(e.Start) {
			out[last].Blocks += e.Blocks
			continue
		}
		out = append(out, e)
	}
	return out
}

func (o *origin) put(stored []byte) chunk.ID {
	id := chunk.Sum(stored)
	o.objects["/o/"+id.Name()] = stored
	return id
}

// serve serves objects. It has no tracker.
func (o *origin) serve(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, ok := o.objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b) // fails if the requester is gone
	}))
	t.Cleanup(s.Close)
	o.config.Servers = []string{s.URL}
}

// cacheDisk returns an empty cache with room for the root.
func cacheDisk(t *testing.T) *blockapi.CacheDisk {
	t.Helper()
	c := &blockapi.CacheDisk{Name: filepath.Join(t.TempDir(), "cache"), Size: 512 << 20}
	var err error
	if c.File, err = os.Create(c.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.File.Close() })
	if err := errors.Join(c.File.Truncate(c.Size), cache.Format(c.File, c.Size)); err != nil {
		t.Fatal(err)
	}
	return c
}

// boot reads the root through a daemon, compares every byte, and returns the daemon's peak memory.
func (o *origin) boot(t *testing.T, c blockapi.Config) (peak int64) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	bin, err := filepath.Abs("../../build/bin/pando-init")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("%v (make build makes it)", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	n, err := blockd.StartAlone(ctx, bin, t.TempDir(), c, null)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	got := make([]byte, 128<<10)
	const reads = extents * extentBlocks * chunk.BlockSize / (128 << 10)
	for i := range reads {
		off := int64(reads-1-i) * int64(len(got))
		if i%5 == 0 { // some reads are at random places
			off = int64(i*i*7%reads) * int64(len(got))
		}
		if _, err := n.Device.ReadAt(got, off); err != nil || !bytes.Equal(got, o.raw[off:][:len(got)]) {
			t.Fatalf("wrong bytes at %d, or %v", off, err)
		}
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "VmHWM:")
	if _, err := fmt.Sscan(text, &peak); err != nil {
		t.Fatal(err)
	}
	return peak << 10
}
