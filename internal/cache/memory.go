package cache

import (
	"container/list"
	"sync"

	"pando/internal/chunk"
)

// Memory keeps the objects used last, up to a limit of their stored bytes. It is safe for concurrent use.
type Memory struct {
	limit int64

	mu    sync.Mutex
	bytes int64
	items map[chunk.ID]*list.Element
	order list.List // of chunk.Verified, the latest used in front
}

// NewMemory returns an empty Memory for limit bytes.
func NewMemory(limit int64) *Memory {
	return &Memory{limit: limit, items: map[chunk.ID]*list.Element{}}
}

// Get returns an object if it is kept. The size is ignored.
func (m *Memory) Get(id chunk.ID, _ int64) (chunk.Verified, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.items[id]
	if !ok {
		return chunk.Verified{}, false
	}
	m.order.MoveToFront(e)
	return e.Value.(chunk.Verified), true
}

// Has reports whether an object is kept.
func (m *Memory) Has(id chunk.ID) bool { return !m.Wants(id) }

// Wants reports whether an object is not kept yet.
func (m *Memory) Wants(id chunk.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.items[id] == nil
}

// Put keeps an object, and drops those unused for longest. An object larger than the limit is not kept.
func (m *Memory) Put(v chunk.Verified) error {
	size := int64(len(v.Stored()))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items[v.ID()] != nil || size > m.limit {
		return nil
	}
	m.items[v.ID()] = m.order.PushFront(v)
	for m.bytes += size; m.bytes > m.limit; {
		old := m.order.Remove(m.order.Back()).(chunk.Verified)
		delete(m.items, old.ID())
		m.bytes -= int64(len(old.Stored()))
	}
	return nil
}

// Sync has nothing to do.
func (m *Memory) Sync() error { return nil }
