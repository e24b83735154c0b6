package store

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
)

// replaced is a store with a version whose pack was replaced.
type replaced struct {
	*Dir
	version fleet.Digest
	public  minisign.PublicKey
	// pieces of the old pack that are needed by the new pack, by another class' pack, and by the version as a chunk
	shared []chunk.ID
	alone  []chunk.ID // its map, and pieces that nobody needs
	stays  []chunk.ID // the new pack's own
}

func newReplaced(t *testing.T) replaced {
	t.Helper()
	d := newDir(t)
	public, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v, ids := putVersion(t, d, key)
	r := replaced{Dir: d, version: v.Digest, public: public}
	made := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	raw := func(b byte) []byte { return bytes.Repeat([]byte{b}, chunk.BlockSize) }
	pack := func(class string, sequence uint64, pieces ...chunk.Entry) chunk.ID {
		p := bootpack.Map{Version: v.Digest, Class: class, Sequence: sequence, Booted: 1, Pieces: pieces,
			Extents: []bootpack.Extent{{Start: 0, Blocks: uint32(len(pieces))}}}
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		made = made.Add(time.Hour)
		record := bootpack.Record{
			Class:     class,
			Sequence:  sequence,
			Object:    putObject(t, d, data),
			Size:      int64(len(data)),
			Signature: string(bootpack.Sign(key, data)),
			Made:      made,
		}
		if err := d.PutPack(v.Digest, record); err != nil {
			t.Fatal(err)
		}
		return record.Object
	}
	piece := func(b byte) chunk.Entry {
		return chunk.Entry{
			RawSize:    chunk.BlockSize,
			StoredSize: chunk.BlockSize,
			Codec:      chunk.Stored,
			ID:         putObject(t, d, raw(b)),
		}
	}
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	stored, codec := enc.Encode(bytes.Repeat([]byte("a"), chunk.BlockSize))
	asChunk := chunk.Entry{RawSize: chunk.BlockSize, StoredSize: len(stored), Codec: codec, ID: ids["a"]}
	old := pack("", 1, piece(1), piece(2), asChunk, piece(3), piece(4))
	class := pack("laptop", 1, piece(3), piece(7))
	now := pack("", 2, piece(2), piece(5))
	r.shared = []chunk.ID{piece(2).ID, asChunk.ID, piece(3).ID}
	r.alone = []chunk.ID{old, piece(1).ID, piece(4).ID}
	r.stays = []chunk.ID{now, class, piece(5).ID, piece(7).ID}
	return r
}

// expect checks which objects exist, and that the store is good.
func (r replaced) expect(t *testing.T, alone bool) {
	t.Helper()
	for _, id := range append(r.shared, r.stays...) {
		if _, ok := r.Stat(id); !ok {
			t.Errorf("object %s is gone, and needed", id)
		}
	}
	for _, id := range r.alone {
		if _, ok := r.Stat(id); ok != alone {
			t.Errorf("object %s of the old pack: there is %v, want %v", id, ok, alone)
		}
	}
	r.whole(t)
}

func (r replaced) whole(t *testing.T) {
	t.Helper()
	report, err := r.Check(t.Context(), []string{r.public.String()}, nil)
	if err != nil || len(report.Problems) > 0 || report.Versions != 1 {
		t.Errorf("the store: %+v, %v", report, err)
	}
}

func (r replaced) collect(ctx context.Context, over bool) (Collected, error) {
	return r.CollectPacks(ctx, func(v fleet.Digest, p bootpack.Replaced) bool {
		return over && v == r.version && p.Object == r.alone[0] && p.Replaced.Hour() == 15
	})
}

// TestCollectPacks: a replaced pack stays until its time is over. Then only what is needed elsewhere stays.
func TestCollectPacks(t *testing.T) {
	r := newReplaced(t)
	if c, err := r.collect(t.Context(), false); err != nil || c != (Collected{}) {
		t.Errorf("collected %+v, %v", c, err)
	}
	r.expect(t, true)
	c, err := r.collect(t.Context(), true)
	if err != nil || c.Packs != 1 || c.Objects != len(r.alone) || c.Bytes < 2*chunk.BlockSize {
		t.Errorf("collected %+v, %v", c, err)
	}
	r.expect(t, false)
	if c, err := r.collect(t.Context(), true); err != nil || c != (Collected{}) {
		t.Errorf("collected again: %+v, %v", c, err)
	}
	if p, err := r.packs(r.version); err != nil || len(p.Packs) != 2 || len(p.Replaced) != 0 {
		t.Errorf("packs %+v, %v", p, err)
	}
}

// cutShort is a context that ends after a number of calls.
type cutShort struct {
	context.Context
	left int
}

func (p *cutShort) Err() error {
	if p.left--; p.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestCollectPacksInterrupted: an interruption at any moment leaves a good store, and the next run removes the rest.
func TestCollectPacksInterrupted(t *testing.T) {
	interrupted := 0
	for ; ; interrupted++ {
		r := newReplaced(t)
		_, err := r.collect(&cutShort{t.Context(), interrupted}, true)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		r.whole(t)
		if _, err := r.collect(t.Context(), true); err != nil {
			t.Error(err)
		}
		r.expect(t, false)
	}
	if interrupted < 8 { // the reads of index, page and maps, and each removal
		t.Errorf("interrupted at %d moments only", interrupted)
	}
}

// TestCollectPacksOfABrokenStore: what cannot be read may name any object, so nothing is removed.
func TestCollectPacksOfABrokenStore(t *testing.T) {
	r := newReplaced(t)
	v, err := r.GetVersion(r.version)
	if err != nil {
		t.Fatal(err)
	}
	m, err := image.Decode(v.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(r.ObjectPath(m.Root.Index), []byte("damaged"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c, err := r.collect(t.Context(), true); err == nil || c.Objects > 0 {
		t.Errorf("collected %+v, %v", c, err)
	}
	for _, id := range r.alone {
		if _, ok := r.Stat(id); !ok {
			t.Errorf("object %s is gone", id)
		}
	}
}
