package boot

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/trace"
)

// putPack gives the origin a boot pack of some extents, in pieces of so many blocks.
func (o *testOrigin) putPack(t *testing.T, blocks int, extents ...image.Extent) image.Pack {
	t.Helper()
	p := image.Pack{Version: image.Version([]byte("x")), Sequence: 1, Extents: extents}
	var raw []byte
	for _, e := range extents {
		raw = append(raw, o.raw[int(e.Start)*chunk.BlockSize:int(e.End())*chunk.BlockSize]...)
	}
	for piece := range slices.Chunk(raw, blocks*chunk.BlockSize) {
		p.Pieces = append(p.Pieces, chunk.Entry{RawSize: len(piece), StoredSize: len(piece), Codec: chunk.Stored, ID: o.put(piece)})
	}
	p.Booted = len(p.Pieces)
	var err error
	if o.pack, err = p.Encode(); err != nil {
		t.Fatal(err)
	}
	return p
}

// A daemon with a boot pack answers from it what it has, from chunks what it has not and what is lost, counts both,
// and hands out what was read. One that takes over knows that it has not seen all.
func TestBlockDaemonWithABootPack(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	const blocks, end = 400, 390
	o := newTestOrigin(t, blocks)
	p := o.putPack(t, 50, image.Extent{Start: 300, Blocks: 100}, image.Extent{Start: 0, Blocks: 100})
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
	want := Recording{Pack: chunk.Sum(o.pack).String(), Hits: (50 + 90) * 4096, Misses: (end - 140) * 4096, Wasted: 10 * 4096}
	if reads.Pack != want.Pack || reads.Hits != want.Hits || reads.Misses != want.Misses || reads.Wasted != want.Wasted {
		t.Errorf("pack %s: %d hits, %d misses, %d wasted; want %+v", reads.Pack, reads.Hits, reads.Misses, reads.Wasted, want)
	}
	st, err := c.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := slices.ContainsFunc(st.Incidents, func(i Incident) bool { return i.Kind == LostPiece })
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
