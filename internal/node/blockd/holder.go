package blockd

import (
	"context"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"pando/internal/blockapi"
	"pando/internal/chunk"
)

// holder keeps the objects that are fetched while holding is on: they belong to files that must be readable while no
// server answers. They stay in memory until the daemon ends.
type holder struct {
	from   chunk.Source
	forget atomic.Pointer[func()] // drops unpacked data; nil: the device is not open

	mu      sync.Mutex
	on      bool
	objects map[chunk.ID]chunk.Verified
	held    blockapi.Held
}

// Get returns a held object, or fetches it.
func (h *holder) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	h.mu.Lock()
	v, ok := h.objects[r.ID]
	h.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := h.from.Get(ctx, r)
	if err == nil {
		h.put(v)
	}
	return v, err
}

// put holds an object if holding is on and there is room.
func (h *holder) put(v chunk.Verified) {
	h.mu.Lock()
	defer h.mu.Unlock()
	size := int64(len(v.Stored()))
	if _, again := h.objects[v.ID()]; !h.on || again {
		return
	}
	if h.held.Bytes+size > blockapi.HoldMost {
		h.held.Left++
		return
	}
	h.objects[v.ID()] = v
	h.held.Objects, h.held.Bytes = h.held.Objects+1, h.held.Bytes+size
}

// hold switches holding on or off, and returns what is held. Held objects stay: an agent that restarts switches it on
// again, possibly while no server answers.
func (h *holder) hold(on bool) blockapi.Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.on = on; on && h.objects == nil {
		h.objects = map[chunk.ID]chunk.Verified{}
	}
	if on {
		h.held.Left = 0
	}
	return h.held
}

// hold switches the holding of fetched objects on or off. When switched on, it drops unpacked data, so that it is
// fetched again and held.
func (d *blockDaemon) hold(on bool) blockapi.Held {
	forget := d.holder.forget.Load()
	if forget == nil { // the device is not open yet
		return blockapi.Held{}
	}
	if on {
		d.roomier.Do(func() { debug.SetMemoryLimit(debug.SetMemoryLimit(-1) + blockapi.HoldMost) })
		(*forget)()
	}
	return d.holder.hold(on)
}
