package packer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/rawdigest"
	"pando/internal/store"
)

// Options says which boot pack to make.
type Options struct {
	Store    *store.Dir
	Keys     []minisign.PrivateKey // sign the map
	Version  fleet.Digest
	Manifest image.Manifest
	Class    string // hardware class, "" for all
	Order    Order
	Boots    int          // number of read traces in Order; 0: it was carried over
	Traced   time.Time    // when the traces were listed; later ones are not in Order; zero: when packing begins
	From     fleet.Digest // version that Order was carried over from
	// Before is the pack that nodes have so far, whose pieces are kept where they fit; nil: none.
	Before *bootpack.Map
	Done   func(raw int64)  // called with the raw bytes packed so far; may be nil
	Log    *slog.Logger     // nil: no log
	Now    func() time.Time // nil: time.Now
}

// ErrNothing means that an order has no block with bytes.
var ErrNothing = errors.New("no block of the order has bytes")

// batchBytes is how much of a pack is kept in memory before it is stored. The store's lock is held for one batch at a
// time, so that an image build waits for seconds only.
const batchBytes = 16 << 20

// Make makes a boot pack of a version, stores its pieces and its map, and records it beside the manifest. If it is
// interrupted it leaves unused pieces, and the old pack remains.
func Make(ctx context.Context, opt Options) (bootpack.Record, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	if opt.Done == nil {
		opt.Done = func(int64) {}
	}
	if opt.Traced.IsZero() {
		opt.Traced = opt.Now()
	}
	b := &maker{Options: opt, known: map[[32]byte]chunk.Entry{}, proofs: chunk.FastDigests{}}
	r, err := b.run(ctx)
	if err != nil {
		return r, fmt.Errorf("make boot pack of version %s: %w", opt.Version.Short(), err)
	}
	return r, nil
}

// maker is one call of Make.
type maker struct {
	Options
	enc    *pieceEncoder
	memory *rawdigest.Cache // not modified outside of flush

	raw    int64 // bytes packed so far
	proofs chunk.FastDigests
	batch  [][]byte // stored bytes not in the store yet
	bytes  int
	known  map[[32]byte]chunk.Entry // entries of the batch, by raw digest
}

func (b *maker) run(ctx context.Context) (r bootpack.Record, err error) {
	if b.enc, err = newPieceEncoder(); err != nil {
		return r, err
	}
	if b.memory, err = rawdigest.Open(b.Store); err != nil {
		return r, err
	}
	root, err := imagefs.Open(ctx, b.Store, b.Manifest)
	if err != nil {
		return r, err
	}
	kept, err := b.keep(ctx, root)
	if err != nil {
		return r, err
	}
	c := &cutter{grain: b.Order.grain(), root: root, kept: kept, emit: func(raw []byte) ([]chunk.Entry, error) {
		entries, err := b.piece(ctx, nil, raw)
		b.raw += int64(len(raw))
		b.Done(b.raw)
		return entries, err
	}}
	booted, err := c.cut(b.Order)
	if err != nil {
		return r, err
	}
	if len(c.pieces) == 0 {
		return r, ErrNothing
	}
	pieces, extents := joined(c.pieces)
	return b.publish(ctx, bootpack.Map{
		Version: b.Version, Class: b.Class, Booted: booted, Pieces: pieces, Proofs: b.proofs.Of(pieces),
		Extents: extents,
	})
}

// piece compresses a piece, unless the store has it from an earlier recording or another version, and appends its
// entry. A piece whose compressed size is too large becomes several.
func (b *maker) piece(ctx context.Context, to []chunk.Entry, raw []byte) ([]chunk.Entry, error) {
	digest := rawdigest.Sum(raw)
	e, ok := b.known[digest]
	if !ok {
		e, ok = b.memory.Find(digest, len(raw))
	}
	var stored []byte
	if !ok {
		var err error
		if stored, e, err = b.enc.encode(ctx, raw); err != nil {
			return to, err
		}
	}
	if n := b.Order.grain().parts(len(raw), e.StoredSize); n > 1 {
		blocks := len(raw) / chunk.BlockSize
		for part := range slices.Chunk(raw, (blocks+n-1)/n*chunk.BlockSize) {
			var err error
			if to, err = b.piece(ctx, to, part); err != nil {
				return to, err
			}
		}
		return to, nil
	}
	if !ok {
		b.batch, b.known[digest] = append(b.batch, stored), e
		b.bytes += len(stored)
	}
	if err := b.prove(ctx, e.ID, stored); err != nil {
		return to, err
	}
	to = append(to, e)
	if b.bytes < batchBytes {
		return to, nil
	}
	unlock, err := b.Store.Lock(ctx, "boot pack")
	if err != nil {
		return to, err
	}
	defer unlock()
	return to, b.flush(ctx)
}

// prove notes the fast digest of a piece. stored is the piece's bytes; nil: they are read from the store.
func (b *maker) prove(ctx context.Context, id chunk.ID, stored []byte) (err error) {
	if _, ok := b.proofs[id]; ok {
		return nil
	}
	if stored == nil {
		if stored, err = b.Store.Get(ctx, id); err != nil {
			return err
		}
	}
	b.proofs[id] = chunk.FastSum(stored)
	return nil
}

// waiting reports whether a piece is in the batch and not stored yet.
func (b *maker) waiting(id chunk.ID) bool {
	for _, e := range b.known {
		if e.ID == id {
			return true
		}
	}
	return false
}

// flush stores the batch and saves its raw digests. The caller holds the store's lock. The digests are read again
// first, because another process may have added some.
func (b *maker) flush(ctx context.Context) error {
	w := b.Store.NewWriter()
	defer w.Close()
	for _, stored := range b.batch {
		if _, _, err := w.Put(ctx, stored); err != nil {
			return err
		}
	}
	if err := w.Sync(ctx); err != nil {
		return err
	}
	memory, err := rawdigest.Open(b.Store)
	if err != nil {
		return err
	}
	for digest, e := range b.known {
		memory.Add(digest, e)
	}
	b.memory, b.batch, b.bytes = memory, nil, 0
	clear(b.known)
	return memory.Save()
}

// publish stores the last pieces and the map, and then makes the pack the one that the next boots get.
func (b *maker) publish(ctx context.Context, p bootpack.Map) (r bootpack.Record, err error) {
	unlock, err := b.Store.Lock(ctx, "boot pack")
	if err != nil {
		return r, err
	}
	defer unlock()
	records, err := b.Store.Packs(b.Version)
	if err != nil {
		return r, err
	}
	for _, e := range p.Pieces {
		// The lock was free between batches, so a piece of another pack may have been collected.
		if _, ok := b.Store.Stat(e.ID); !ok && !b.waiting(e.ID) {
			return r, fmt.Errorf("piece %s was removed meanwhile", e.ID)
		}
	}
	p.Sequence = 1
	if last, ok := bootpack.Find(records, b.Class); ok && last.Class == b.Class {
		p.Sequence = last.Sequence + 1
	}
	data, err := p.Encode()
	if err != nil {
		return r, err
	}
	b.batch = append(b.batch, data)
	if err := b.flush(ctx); err != nil {
		return r, err
	}
	bootSet, bootPieces := p.BootSet()
	r = bootpack.Record{
		Class: b.Class, Sequence: p.Sequence, Object: chunk.Sum(data), Size: int64(len(data)),
		Signature: string(bootpack.Renew(data, nil, nil, b.Keys...)),
		Made:      b.Traced.UTC(), Boots: b.Boots, From: b.From, Pieces: len(p.Pieces), Raw: p.RawSize(),
		Stored:  p.StoredSize(),
		BootSet: bootSet, BootPieces: bootPieces,
	}
	return r, b.Store.ReplacePack(b.Version, r, b.Now().UTC())
}
