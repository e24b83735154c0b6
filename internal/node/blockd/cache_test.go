package blockd

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/cache"
	"pando/internal/chunk"
	"pando/internal/image/bootpack"
	"pando/internal/testkit/cachekit"
)

// readAlone runs a new daemon, reads the whole root through it, and returns its last status.
func readAlone(t *testing.T, o *testOrigin, c blockapi.Config) blockapi.Status {
	t.Helper()
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	got := make([]byte, len(o.raw))
	for off := 0; off < len(got); off += 128 << 10 {
		p := got[off:min(off+128<<10, len(got))]
		if _, err := a.Device.ReadAt(p, int64(off)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, o.raw) {
		t.Fatal("wrong bytes were read")
	}
	st, err := a.Client.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func kinds(st blockapi.Status) (out []blockapi.IncidentKind) {
	for _, i := range st.Incidents {
		out = append(out, i.Kind)
	}
	return out
}

// The first daemon fills a cache disk, and the next one fetches nothing. A damaged, read-only or missing cache makes
// no read fail.
func TestBlockDaemonWithACacheDisk(t *testing.T) {
	o, c := aloneConfig(t, 400)
	const size = 80 << 20
	path := filepath.Join(t.TempDir(), "disk")
	open := func(flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f := open(os.O_RDWR | os.O_CREATE)
	if err := errors.Join(f.Truncate(size), cache.Format(f, size)); err != nil {
		t.Fatal(err)
	}
	c.Disk = &blockapi.CacheDisk{Name: path, Size: size, File: f}
	first := readAlone(t, o, c)
	if first.Bytes["server"] == 0 || first.Bytes["disk"] != 0 || len(first.Incidents) > 0 {
		t.Fatalf("first: %v, incidents %v", first.Bytes, first.Incidents)
	}
	second := readAlone(t, o, c)
	if second.Bytes["server"] != 0 || second.Bytes["disk"] != first.Bytes["server"] || len(second.Incidents) > 0 {
		t.Errorf("second: %v, incidents %v", second.Bytes, second.Incidents)
	}

	c.Disk.ReadOnly, c.Disk.File = true, open(os.O_RDONLY)
	if st := readAlone(t, o, c); st.Bytes["server"] != 0 || len(st.Incidents) > 0 {
		t.Errorf("read-only: %v, incidents %v", st.Bytes, st.Incidents)
	}
	c.Disk.ReadOnly, c.Disk.File = false, f
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		if _, err := f.WriteAt([]byte{byte(r.Uint32())}, 8<<20+r.Int64N(2<<20)); err != nil {
			t.Fatal(err)
		}
	}
	st := readAlone(t, o, c)
	if st.Bytes["server"] == 0 || st.Rejected != 0 ||
		!slices.Equal(kinds(st), []blockapi.IncidentKind{blockapi.CacheDamaged}) {
		t.Errorf("damaged: %v, incidents %v", st.Bytes, st.Incidents)
	}
	if st := readAlone(t, o, c); st.Bytes["server"] != 0 || len(st.Incidents) > 0 {
		t.Errorf("after damage was mended: %v, incidents %v", st.Bytes, st.Incidents)
	}

	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if st := readAlone(t, o, c); st.Bytes["disk"] != 0 ||
		!slices.Equal(kinds(st), []blockapi.IncidentKind{blockapi.CacheFailed}) {
		t.Errorf("no cache: %v, incidents %v", st.Bytes, st.Incidents)
	}
}

// With an empty cache and no peers the whole boot pack is fetched by one daemon.
func TestBootPackWithAnEmptyCache(t *testing.T) {
	o, c := aloneConfig(t, 400)
	o.putPack(t, 10, bootpack.Extent{Start: 0, Blocks: 400})
	c.Pack, c.RAM = o.pack, 64<<20
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	st := statusWhen(t, a, func(st blockapi.Status) bool { return st.Complete > 0 })
	if st.Bytes["server"] < int64(len(o.raw)) || st.Restarts != 0 || st.Reads != 0 {
		t.Errorf("%v after %d restarts and %d reads", st.Bytes, st.Restarts, st.Reads)
	}
}

func TestBlockDaemonWithACacheInMemory(t *testing.T) {
	o, c := aloneConfig(t, 400)
	c.RAM, c.Cache = 64<<20, 1
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var before blockapi.Status
	for range 2 {
		for off := 0; off < len(o.raw); off += 4096 {
			if _, err := a.Device.ReadAt(make([]byte, 4096), int64(off)); err != nil {
				t.Fatal(err)
			}
		}
		st, err := a.Client.Status(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if before.Reads > 0 &&
			(st.Bytes["server"] != before.Bytes["server"] || st.Bytes["ram"] == before.Bytes["ram"]) {
			t.Errorf("what was read before is fetched again: %v, then %v", before.Bytes, st.Bytes)
		}
		before = st
	}
}

// A daemon that takes over uses the cache too.
func TestSupervisorPassesTheCacheOn(t *testing.T) {
	o, c := aloneConfig(t, 200)
	disk := cachekit.NewDisk(t)
	c.Disk = disk
	readAlone(t, o, c)
	k, client, ready, stop := supervise(t, o, blockapi.Config{ChunkSize: c.ChunkSize, Disk: c.Disk})
	defer stop()
	if ready != "ready" {
		t.Fatalf("supervisor says %q", ready)
	}
	for i := range 200 {
		if got, err := k.read(int64(i)*4096, 4096); err != nil || !bytes.Equal(got, o.raw[i*4096:][:4096]) {
			t.Fatalf("block %d: wrong bytes or %v", i, err)
		}
		if i%80 == 79 {
			st, err := client.Status(t.Context(), 0)
			if err == nil {
				err = unix.Kill(st.PID, unix.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	st, err := client.Status(t.Context(), 0)
	if err != nil || st.Restarts != 2 || st.Bytes["server"] != 0 || st.Bytes["disk"] == 0 {
		t.Errorf("after %d restarts: %v, %v", st.Restarts, st.Bytes, err)
	}
}

// A node with the previous version in its cache fetches only what is new, and has all pieces for the boot before
// anything is read.
func TestNextVersionWithACacheInASwarm(t *testing.T) {
	o, c := newTrackedOrigin(t, 400)
	disk := cachekit.NewDisk(t)
	c.Disk = disk
	readAlone(t, o.testOrigin, c)

	const changed = 3 // pieces, of ten blocks each
	for i := range changed {
		o.raw[i*100*chunk.BlockSize] ^= 1
	}
	o.publish(t)
	o.putPack(t, 10, bootpack.Extent{Start: 0, Blocks: 400})
	c.Index, c.Pack = o.index, o.pack
	next, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	st := statusWhen(t, next, func(st blockapi.Status) bool { return st.Complete > 0 })
	if index, got := int64(64<<10), st.Bytes["server"]; got < changed*10*chunk.BlockSize ||
		got > changed*10*chunk.BlockSize+index ||
		st.Reads > 0 {
		t.Errorf(
			"%d bytes came for %d pieces of ten blocks that are new, and the index, in %d reads",
			got,
			changed,
			st.Reads,
		)
	}
	o.readAll(t, next)
}

// A node with a warm cache fetches nothing from its swarm, and serves its objects to peers.
func TestWarmCacheInASwarm(t *testing.T) {
	o, c := newTrackedOrigin(t, 400)
	disk := cachekit.NewDisk(t)
	cold := c
	c.Disk = disk
	readAlone(t, o.testOrigin, c)
	sent := o.sent.Load()
	warm, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer warm.Close()
	o.readAll(t, warm)
	st := statusWhen(t, warm, func(st blockapi.Status) bool { return st.Bytes["disk"] >= int64(len(o.raw)) })
	if st.Bytes["server"]+st.Bytes["peer"] != 0 || o.sent.Load() != sent || st.Errors > 0 {
		t.Errorf("with a warm cache: %v", st.Bytes)
	}
	other, err := startAlone(t.Context(), t, cold)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	o.readAll(t, other)
	st = statusWhen(
		t,
		other,
		func(st blockapi.Status) bool { return st.Bytes["server"]+st.Bytes["peer"] >= int64(len(o.raw)) },
	)
	if st.Bytes["peer"] == 0 {
		t.Errorf("its peer: %v", st.Bytes)
	}
	for _, a := range []*Alone{warm, other} {
		if err := a.Client.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		a.Close()
	}

	// If all objects are damaged, the swarm sends the pieces for the boot before anything is read.
	junk := make([]byte, 16<<10)
	for at := int64(8 << 20); at < disk.Size-8<<20; at += int64(len(junk)) { // leaves the cache's tables intact
		if _, err := disk.File.WriteAt(junk, at); err != nil {
			t.Fatal(err)
		}
	}
	damaged, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	defer damaged.Close()
	st = statusWhen(t, damaged, func(st blockapi.Status) bool { return st.Complete > 0 })
	if st.Bytes["server"] == 0 || st.Reads > 0 || !slices.Contains(kinds(st), blockapi.CacheDamaged) {
		t.Errorf("with a damaged cache: %v after %d reads, incidents %v", st.Bytes, st.Reads, st.Incidents)
	}
	o.readAll(t, damaged)
}
