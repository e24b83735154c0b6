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

// goodput is the part of a link that carries objects: of a frame of 1,538 bytes on the wire TCP has 1,448, or 1,460
// without time stamps.
const goodput = 0.94

// NewTracker makes the tracker of the site's swarms. The rates of the server's and the nodes' links are in bytes a
// second. 0 means that a rate is not known; then the tracker counts the transfers that are under way.
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

// packPieces remembers which objects the pieces of boot packs are.
type packPieces struct {
	store *store.Dir

	mu    sync.Mutex
	known map[chunk.ID][]chunk.ID
}

// packsKnown bounds what is remembered: a pack of a desktop has 2,400 pieces, which are 80 KB.
const packsKnown = 64

// of is nil when there is no such pack. What it is asked comes from anybody, and costs a look into the store at most.
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

// read looks into the store. A version may have no pack yet: its nodes share what they read, in a swarm of its name.
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
