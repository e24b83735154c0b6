package objects

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/swarm"
	"pando/internal/swarm/tracker"
)

// goodput is the share of a link's rate that carries objects: TCP has 1,448 bytes (1,460 without timestamps) of each
// 1,538-byte frame on the wire.
const goodput = 0.94

// NewTracker makes the tracker of the site's swarms. The rates of the server's and the nodes' links are in bytes a
// second; 0 means unknown. Then the tracker counts transfers instead.
func NewTracker(uplink int64, nodeLink func() int64, dir *store.Dir, log *slog.Logger) *tracker.Server {
	packs := &packPieces{store: dir}
	return tracker.New(
		swarm.TrackerOptions{Uplink: int64(float64(uplink) * goodput),
			NodeLink: func() int64 { return int64(float64(nodeLink()) * goodput) },
			Random:   rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))},
		packs.of,
		log,
	)
}

// packPieces caches which objects are the pieces of a boot pack.
type packPieces struct {
	store *store.Dir

	mu    sync.Mutex
	known map[chunk.ID][]chunk.ID
}

// packsKnown limits the cached packs: a desktop's pack has 2,400 pieces, which take 80 KB.
const packsKnown = 64

// of returns the pieces of a pack, nil if there is no such pack. Any machine may request any ID; a request costs at
// most one read of the store.
func (p *packPieces) of(pack chunk.ID) []chunk.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ids, ok := p.known[pack]; ok {
		return ids
	}
	ids := p.read(pack)
	if ids == nil {
		return nil
	}
	if p.known == nil || len(p.known) >= packsKnown {
		p.known = map[chunk.ID][]chunk.ID{}
	}
	p.known[pack] = ids
	return ids
}

// read reads a pack from the store. A version without a pack has an empty list: its nodes share objects in a swarm that
// is named after the version's digest.
func (p *packPieces) read(pack chunk.ID) []chunk.ID {
	if _, err := p.store.ManifestBytes(fleet.Digest(pack.String())); err == nil {
		return []chunk.ID{}
	}
	size, ok := p.store.Stat(pack)
	if !ok || size > bootpack.MaxSize {
		return nil
	}
	data, err := p.store.Get(context.Background(), pack)
	if err != nil {
		return nil
	}
	m, err := bootpack.Decode(data)
	if err != nil {
		return nil
	}
	ids := make([]chunk.ID, len(m.Pieces))
	for i, e := range m.Pieces {
		ids[i] = e.ID
	}
	return ids
}
