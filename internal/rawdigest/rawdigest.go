package rawdigest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"pando/internal/chunk"
	"pando/internal/store"
)

// Cache remembers which object has which raw bytes, for everything ever built into a store. A chunk that is already
// stored is then not compressed again, and keeps its name when the compressor changes. Cache is an append-only file
// of records; losing it costs only time.
type Cache struct {
	store *store.Dir
	path  string

	mu    sync.Mutex
	known map[[32]byte]chunk.Entry
	fresh []byte // records that Save will append
	whole int64  // bytes of the file with complete records
}

// A record: raw digest (32), object digest (32), raw size (4), stored size (4), codec (1), algorithm (1), zeros (2),
// CRC-32C of the bytes before (4).
const recordSize = 80

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the digest of raw bytes that Find and Add expect.
func Sum(raw []byte) [32]byte { return sha256.Sum256(raw) }

// Open reads the raw digests of a store. The store must be locked if Save will be called.
func Open(d *store.Dir) (*Cache, error) {
	m := &Cache{store: d, path: filepath.Join(d.Path(), "raw-digests"), known: map[[32]byte]chunk.Entry{}}
	data, err := os.ReadFile(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read raw digests: %w", err)
	}
	for len(data) >= recordSize {
		if digest, e, ok := readRecord(data[:recordSize]); ok {
			m.known[digest] = e
		}
		data, m.whole = data[recordSize:], m.whole+recordSize
	}
	return m, nil
}

func readRecord(b []byte) (digest [32]byte, e chunk.Entry, ok bool) {
	le := binary.LittleEndian
	if crc32.Checksum(b[:76], castagnoli) != le.Uint32(b[76:]) {
		return digest, e, false
	}
	e.ID = chunk.ID{Algorithm: chunk.Algorithm(b[73]), Sum: [32]byte(b[32:64])}
	e.RawSize, e.StoredSize, e.Codec = int(le.Uint32(b[64:])), int(le.Uint32(b[68:])), chunk.Codec(b[72])
	return [32]byte(b[:32]), e, true
}

// Find returns the entry for raw bytes, if the store still has the object.
func (m *Cache) Find(digest [32]byte, size int) (chunk.Entry, bool) {
	m.mu.Lock()
	e, ok := m.known[digest]
	m.mu.Unlock()
	if !ok || e.RawSize != size {
		return e, false
	}
	stored, ok := m.store.Stat(e.ID)
	return e, ok && stored == int64(e.StoredSize)
}

// Stored returns the object with the given raw bytes, or nil if the store has no good one.
func (m *Cache) Stored(ctx context.Context, raw []byte) []byte {
	e, ok := m.Find(Sum(raw), len(raw))
	if !ok {
		return nil
	}
	data, err := m.store.Get(ctx, e.ID)
	if err != nil {
		return nil // the caller then compresses it again
	}
	return data
}

// Add records an entry. Find returns it only when the store has its object.
func (m *Cache) Add(digest [32]byte, e chunk.Entry) {
	le := binary.LittleEndian
	b := make([]byte, 0, recordSize)
	b = append(b, digest[:]...)
	b = append(b, e.ID.Sum[:]...)
	b = le.AppendUint32(b, uint32(e.RawSize))
	b = le.AppendUint32(b, uint32(e.StoredSize))
	b = append(b, byte(e.Codec), byte(e.ID.Algorithm), 0, 0)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known[digest] != e {
		m.known[digest] = e
		m.fresh = append(m.fresh, b...)
	}
}

// Save appends the new records, over a record that a crash truncated. A record may be saved before its object is
// stored, because Find asks the store.
func (m *Cache) Save() error {
	if len(m.fresh) == 0 {
		return nil
	}
	f, err := os.OpenFile(m.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("write raw digests: %w", err)
	}
	defer f.Close()
	if _, err := f.WriteAt(m.fresh, m.whole); err != nil {
		return fmt.Errorf("write raw digests: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write raw digests: %w", err)
	}
	m.whole, m.fresh = m.whole+int64(len(m.fresh)), nil
	return nil
}
