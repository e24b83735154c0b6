package blockdev

import (
	"context"
	"time"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// Pack is a boot pack to read from. NewPack makes one, whose Store, Reads and Source have to be set.
type Pack struct {
	*layout
	Map    bootpack.Map
	Store  PieceStore
	Reads  ReadLog
	Stream StreamOrder // nil: the device fetches what reads ask for and nothing else

	// Kept, if set, returns a piece that the node keeps across boots. The device streams these alone, and leaves the
	// rest to a swarm.
	Kept func(ctx context.Context, r chunk.Request) (chunk.Verified, bool)

	// Source fetches pieces, by requests that are Optional: the blocks of a piece that is not to be had come from
	// chunks.
	Source chunk.Source
	// Has, if set, reports whether the node keeps an object, so that it costs no transfer.
	Has func(id chunk.ID) bool
	// Patience is the least time that a read waits for a piece, by default none. It grows with the announce delay.
	Patience func() time.Duration
}

// PieceStore has the pieces of a pack, as they were sent.
type PieceStore interface {
	// Piece returns a piece that is held. lost is why a piece is not to be had.
	Piece(i int) (v chunk.Verified, held bool, lost error)
	Put(i int, v chunk.Verified, readWaits bool) (held bool)
	Lose(i int, err error)
}

// ReadLog takes what was read of the pieces. Offsets are of a piece's raw bytes.
type ReadLog interface {
	Read(i int, at, n int64) (fresh, last bool) // some of it was unread before; nothing of the piece is unread now
	HasUnread(i int, at, n int64) bool
	Fresh(i int) bool // it is held, and nobody has read from it yet
}

// StreamOrder says which piece to stream next, as long as there is room.
type StreamOrder interface {
	Next(upto int) (i int, wait <-chan struct{}) // -1: none, until wait is closed; with no wait none any more
	Leave(i int)                                 // the device does not bring it
}

// NewPack returns a pack for a root of size bytes.
func NewPack(m bootpack.Map, size int64) (*Pack, error) {
	l, err := newLayout(m, size)
	if err != nil {
		return nil, err
	}
	return &Pack{layout: l, Map: m, Patience: func() time.Duration { return 0 }}, nil
}
