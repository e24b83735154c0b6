package initrd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"sync"

	"pando/internal/build/initramfs"
	"pando/internal/image"
	"pando/internal/store"
)

// maxShared is how many shared initramfs are known at once. A machine that asks for a forgotten one gets another
// script.
const maxShared = 64

// Shared makes the initramfs of many boots: drivers and the node's program, without the trust cpio. It is an object,
// named by its SHA-256, which nodes get from each other. It is not stored: its parts are, or are in memory.
type Shared struct {
	objects *store.Dir

	mu  sync.Mutex
	ids map[sharedKey]SharedID
	of  map[string]sharedParts // by object id
}

// SharedID is an object: its id of 64 hex digits, and its size in bytes.
type SharedID struct {
	Object string
	Size   int64
}

type sharedParts struct {
	drivers      []image.Driver
	disks, agent []byte
	trailing     int64 // zero bytes at the end
}

// sharedKey identifies parts. Slices with cpios are made once for each content.
type sharedKey struct {
	drivers      string
	disks, agent *byte
	trailing     int64
}

// NewShared returns an empty set. Driver cpios come from the store.
func NewShared(objects *store.Dir) *Shared {
	return &Shared{objects: objects, ids: map[sharedKey]SharedID{}, of: map[string]sharedParts{}}
}

// Of returns the object with these parts, for a kernel of size bytes. Behind this kernel, the object ends at a multiple
// of four bytes, as records of an initramfs do.
func (s *Shared) Of(kernel int64, drivers []image.Driver, disks, agent []byte) (SharedID, error) {
	p := sharedParts{drivers: drivers, disks: disks, agent: agent, trailing: -kernel & 3}
	key := sharedKey{disks: first(disks), agent: first(agent), trailing: p.trailing}
	for _, d := range drivers {
		key.drivers += d.Object.String() + " "
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if id, ok := s.ids[key]; ok {
		return id, nil
	}
	f, err := p.join(s.objects)
	if err != nil {
		return SharedID{}, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return SharedID{}, fmt.Errorf("shared initramfs: %w", err)
	}
	id := SharedID{hex.EncodeToString(sum.Sum(nil)), f.Size}
	if len(s.ids) >= maxShared {
		clear(s.ids)
		clear(s.of)
	}
	s.ids[key], s.of[id.Object] = id, p
	return id, nil
}

func first(b []byte) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[0]
}

// Open opens the object with an id; nil: it is none.
func (s *Shared) Open(id string) (*Joined, error) {
	s.mu.Lock()
	p, ok := s.of[id]
	s.mu.Unlock()
	if !ok {
		return nil, nil
	}
	return p.join(s.objects)
}

// join reads the object: the end of an archive (see initramfs.Head), then the parts.
func (p sharedParts) join(objects *store.Dir) (*Joined, error) {
	j, err := Join(objects, initramfs.Trailer(), p.drivers, p.disks, p.agent)
	if err == nil && p.trailing > 0 {
		j.parts = append(j.parts, piece{j.Size, p.trailing, zeros{}})
		j.Size += p.trailing
	}
	return j, err
}
