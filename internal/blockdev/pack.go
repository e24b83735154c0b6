package blockdev

import (
	"context"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Pack is a boot pack to read from. NewPack makes one; its Store, Reads and Source must be set. Its pieces are streamed
// as soon as the device is open, or a swarm fetches them in its own order. A piece is verified when it arrives, held
// compressed, and unpacked when a read needs it, or ahead of reads if a processor is idle.
type Pack struct {
	*layout
	Map    bootpack.Map
	Store  PieceStore
	Reads  ReadLog
	Stream StreamOrder // nil: the device fetches only pieces that reads need

	// Kept, if set, returns a piece that the node keeps across boots. The device then streams only these, and leaves
	// the rest to a swarm.
	Kept func(ctx context.Context, r chunk.Request) (chunk.Verified, bool)

	// Source fetches pieces, by requests that are Optional: if no source has a piece, its blocks come from chunks.
	Source chunk.Source
	// Has, if set, reports whether the node keeps an object, so that it costs no transfer.
	Has func(id chunk.ID) bool
	// Patience returns the least time that a read waits for a piece, by default 0. It grows with the announce delay.
	Patience func() time.Duration
}

// PieceStore has the pieces of a pack, in stored form.
type PieceStore interface {
	// Piece returns a piece that is held. lost is the error of a piece that no source has.
	Piece(i int) (v chunk.Verified, held bool, lost error)
	Put(i int, v chunk.Verified, readWaits bool) (held bool)
	Lose(i int, err error)
}

// ReadLog records the reads of pieces. Offsets are in a piece's raw bytes.
type ReadLog interface {
	Read(i int, at, n int64) (fresh, last bool) // fresh: some was unread; last: no part of it is now
	HasUnread(i int, at, n int64) bool
	Fresh(i int) bool // whether it is held, and unread
}

// StreamOrder chooses the next piece to stream, as long as there is room.
type StreamOrder interface {
	Next(upto int) (i int, wait <-chan struct{}) // -1: none until wait is closed; wait nil: no more
	Leave(i int)                                 // the device does not fetch it
}

// NewPack returns a pack for a root of size bytes.
func NewPack(m bootpack.Map, size int64) (*Pack, error) {
	l, err := newLayout(m, size)
	if err != nil {
		return nil, err
	}
	return &Pack{layout: l, Map: m, Patience: func() time.Duration { return 0 }}, nil
}
