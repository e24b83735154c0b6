package cache

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pando/internal/chunk"
)

// memory is an area that can lose its power: writes since the last Sync may be lost.
type memory struct {
	mu      sync.Mutex
	synced  []byte
	now     []byte
	pending []write
	fails   map[string]error // error of "read", "write", "sync"
}

type write struct {
	at   int64
	data []byte
}

func newMemory(size int) *memory {
	return &memory{synced: make([]byte, size), now: make([]byte, size), fails: map[string]error{}}
}

func (m *memory) size() int64 { return int64(len(m.now)) }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails["read"]; err != nil {
		return 0, err
	}
	if off < 0 || off+int64(len(p)) > m.size() {
		return 0, errors.New("read beyond the end")
	}
	return copy(p, m.now[off:]), nil
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails["write"]; err != nil {
		return 0, err
	}
	if off < 0 || off+int64(len(p)) > m.size() {
		return 0, errors.New("write beyond the end")
	}
	m.pending = append(m.pending, write{off, append([]byte(nil), p...)})
	return copy(m.now[off:], p), nil
}

func (m *memory) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fails["sync"]; err != nil {
		return err
	}
	for _, w := range m.pending {
		copy(m.synced[w.at:], w.data)
	}
	m.pending = nil
	return nil
}

func (m *memory) fail(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails[what] = err
}

// cut returns the area after a power cut: of the writes since the last Sync any sectors, and with torn a part of one
// sector.
func (m *memory) cut(r *rand.Rand, torn bool) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := newMemory(len(m.synced))
	copy(after.now, m.synced)
	keep := r.IntN(5) // quarters: 0 keeps nothing, 4 all
	for _, w := range m.pending {
		for at := 0; at < len(w.data); at += sector {
			if r.IntN(4) < keep {
				copy(after.now[w.at+int64(at):], w.data[at:min(at+sector, len(w.data))])
			}
		}
	}
	if n := len(m.pending); torn && n > 0 {
		w := m.pending[r.IntN(n)]
		copy(after.now[w.at:], w.data[:r.IntN(len(w.data)+1)])
	}
	copy(after.synced, after.now)
	return after
}

func openMemory(t testing.TB, m *memory, o Options) *Disk {
	t.Helper()
	d, err := Open(m, m.size(), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func formatted(t testing.TB, size int) *memory {
	t.Helper()
	m := newMemory(size)
	if err := Format(m, m.size()); err != nil {
		t.Fatal(err)
	}
	return m
}

// object returns object number n, with a size that depends on n.
func object(n int) chunk.Verified {
	seed := [32]byte{byte(n), byte(n >> 8), byte(n >> 16)}
	b := make([]byte, 16+n*7919%(1<<(7+n%11)))
	rand.NewChaCha8(seed).Read(b)
	v, err := chunk.Check(chunk.Sum(b), b)
	if err != nil {
		panic(err)
	}
	return v
}
