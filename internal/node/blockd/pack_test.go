package blockd

import (
	"bytes"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
	"pando/internal/hardware"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/trace"
)

// putPack gives the origin a boot pack of some extents, in pieces of this many blocks.
func (o *testOrigin) putPack(t *testing.T, blocks int, extents ...bootpack.Extent) bootpack.Map {
	t.Helper()
	return o.putPackUntil(t, math.MaxInt, blocks, extents...)
}

// putPackUntil is putPack with this many pieces for reads until booted.
func (o *testOrigin) putPackUntil(t *testing.T, booted, blocks int, extents ...bootpack.Extent) bootpack.Map {
	t.Helper()
	p := bootpack.Map{Version: image.Version([]byte("x")), Sequence: 1, Extents: extents}
	var raw []byte
	for _, e := range extents {
		raw = append(raw, o.raw[int(e.Start)*chunk.BlockSize:int(e.End())*chunk.BlockSize]...)
	}
	for piece := range slices.Chunk(raw, blocks*chunk.BlockSize) {
		p.Pieces = append(
			p.Pieces,
			chunk.Entry{RawSize: len(piece), StoredSize: len(piece), Codec: chunk.Stored, ID: o.put(piece)},
		)
	}
	p.Booted = min(booted, len(p.Pieces))
	var err error
	if o.pack, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	return p
}

// A daemon answers reads from its boot pack, and from chunks what the pack lacks or what was lost. It counts both,
// and returns the recording. A daemon that takes over marks the recording as partial.
func TestBlockDaemonWithABootPack(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	const blocks, end = 400, 390
	o := newTestOrigin(t, blocks)
	p := o.putPack(t, 50, bootpack.Extent{Start: 300, Blocks: 100}, bootpack.Extent{Start: 0, Blocks: 100})
	delete(o.objects, "/o/"+p.Pieces[3].ID.Name()) // blocks 50 to 99
	k, c, ready := startSupervisor(t, o)
	if ready != "ready" {
		t.Fatalf("supervisor says %q", ready)
	}
	for i := range end {
		if got, err := k.read(int64(i)*4096, 4096); err != nil || !bytes.Equal(got, o.raw[i*4096:][:4096]) {
			t.Fatalf("block %d: wrong bytes or %v", i, err)
		}
	}
	reads, err := c.EndReads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := trace.DecodeReads(reads.Reads)
	if err != nil || len(got) != end || got[77].Start != 77 || reads.Partial || reads.Count != end {
		t.Errorf("%d reads, partial %v, %v", len(got), reads.Partial, err)
	}
	want := blockapi.Recording{
		Pack:   chunk.Sum(o.pack).String(),
		Hits:   (50 + 90) * 4096,
		Misses: (end - 140) * 4096,
		Wasted: 10 * 4096,
	}
	if reads.Pack != want.Pack || reads.Hits != want.Hits || reads.Misses != want.Misses ||
		reads.Wasted != want.Wasted {
		t.Errorf(
			"pack %s: %d hits, %d misses, %d wasted; want %+v",
			reads.Pack,
			reads.Hits,
			reads.Misses,
			reads.Wasted,
			want,
		)
	}
	st, err := c.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := slices.ContainsFunc(st.Incidents, func(i blockapi.Incident) bool { return i.Kind == blockapi.LostPiece })
	if st.Bytes["pack"] != want.Hits || st.Errors != 0 || !lost {
		t.Errorf("status %+v", st)
	}
	if err := unix.Kill(st.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got, err := k.read(0, 4096); err != nil || !bytes.Equal(got, o.raw[:4096]) {
		t.Errorf("after a kill: wrong bytes or %v", err)
	}
	if again, err := c.EndReads(t.Context()); err != nil || !again.Partial {
		t.Errorf("after a kill: partial %v, %v", again.Partial, err)
	}
}

// Pieces for reads after the boot are fetched when the boot is over.
func TestRestOfTheBootPack(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, 400)
	o.putPackUntil(t, 3, 50, bootpack.Extent{Start: 0, Blocks: 200})
	_, c, ready := startSupervisor(t, o)
	if ready != "ready" {
		t.Fatalf("supervisor says %q", ready)
	}
	// settled returns the number of objects once no more arrive.
	settled := func() (n int64) {
		for same := 0; same < 20; time.Sleep(10 * time.Millisecond) {
			st, err := c.Status(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if same++; st.Fetches != n {
				n, same = st.Fetches, 0
			}
		}
		return n
	}
	before := settled()
	if err := c.Booted(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := settled(); before < 3 || after != before+1 {
		t.Errorf("%d objects came until booted, and %d after that, want one piece", before, after-before)
	}
}

// A node keeps a part of its memory, within bounds, and never more than the pack's size.
func TestKeepOf(t *testing.T) {
	const mb, gb = 1 << 20, 1 << 30
	for _, x := range []struct{ size, memory, asked, want int64 }{
		{12 * mb, gb, 0, 12 * mb},         // a server's pack
		{120 * mb, gb, 0, 64 * mb},        // a desktop's pack, on a kiosk
		{120 * mb, gb / 4, 0, 24 * mb},    // on a very small machine
		{120 * mb, 16 * gb, 0, 120 * mb},  // on a PC of a lab
		{900 * mb, 64 * gb, 0, 256 * mb},  // the upper bound
		{120 * mb, gb, 5e6, 5e6},          // configured: less than the default
		{120 * mb, 0, 0, 24 * mb},         // memory unknown
		{12 * mb, 16 * gb, 64e6, 12 * mb}, // configured: more than the pack has
	} {
		if got := blockapi.KeepOf(x.size, x.memory, x.asked); got != x.want {
			t.Errorf(
				"a pack of %d bytes, memory %d, asked %d: keeps %d, want %d",
				x.size,
				x.memory,
				x.asked,
				got,
				x.want,
			)
		}
	}
	if m := hardware.Memory(); m < 64*mb {
		t.Errorf("this machine has %d bytes of memory", m)
	}
}

// A pack that does not fit the root is reported, and not used.
func TestPackOfAnotherRoot(t *testing.T) {
	o := newTestOrigin(t, 20)
	m := o.putPack(t, 4, bootpack.Extent{Start: 10, Blocks: 10})
	l := testLedger(t)
	for size, want := range map[int64]bool{20 * chunk.BlockSize: true, 19 * chunk.BlockSize: false} {
		d := &blockDaemon{log: quietLog(), ledger: l, watch: newSourceWatch(l), cfg: blockapi.Config{Size: size}}
		if got := d.pack(m, nil, &store.TimeoutFloor{}); (got != nil) != want || (d.pieces.Load() != nil) != want {
			t.Errorf("with a root of %d bytes the pack is %v", size, got)
		}
	}
	if got := l.incidents(0); len(got) != 1 || got[0].Kind != blockapi.LostPiece {
		t.Errorf("incidents %+v", got)
	}
}
