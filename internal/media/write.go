package media

import (
	"bytes"
	"io"

	"pando/internal/cache"
)

// Write is one step of writing a medium. Steps are performed in order, each durable before the next, so that a slot is
// complete or empty at any moment.
type Write struct {
	At   int64 // bytes from the start of the medium
	Data []byte
}

// Medium returns the writes that make a disk of that size a boot medium, with K in its first slot and an empty cache
// behind it. The disk's content is lost: the first write removes its partition table and the last one writes the new
// table, so a half-written disk has none.
func Medium(size int64, l Loader, k K) ([]Write, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	bootCode, core, err := l.embed()
	if err != nil {
		return nil, err
	}
	esp, err := fat32(espSize, "PANDO", l.files())
	if err != nil {
		return nil, err
	}
	body, err := slot(1, k)
	if err != nil {
		return nil, err
	}
	r := &recorder{writes: []Write{
		{0, make([]byte, oldTable)}, {size - oldTable, make([]byte, oldTable)},
		{loaderAt, core}, {espAt, esp}, {SlotAt(0), body}, {SlotAt(1), make([]byte, headerSize)},
	}}
	if err := cache.Format(cache.Section{Area: r, Start: cacheAt}, CacheSize(size)); err != nil {
		return nil, err
	}
	if err := cache.WritePartitions(r, size, Sector, partitions(size)); err != nil {
		return nil, err
	}
	copy(r.writes[len(r.writes)-1].Data[:bootCodeSize], bootCode) // into the first sector, which is written last
	return r.writes, nil
}

// oldTable covers a partition table, at either end of a disk.
const oldTable = 64 << 10

// recorder is a disk that only records what is written to it.
type recorder struct{ writes []Write }

func (r *recorder) WriteAt(p []byte, at int64) (int, error) {
	r.writes = append(r.writes, Write{at, bytes.Clone(p)})
	return len(p), nil
}

// ReadAt makes recorder the area of a cache. Formatting a cache reads nothing.
func (r *recorder) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

func (r *recorder) Sync() error { return nil }

// Renew returns the writes that put K into the older slot; none if the newest slot has it already.
func Renew(now [Slots]Header, k K) ([]Write, error) {
	newest, into := newest(now), 1
	if newest == 1 {
		into = 0
	}
	if now[newest].Sequence == 0 {
		into = newest
	}
	if now[newest].Digest == k.Digest() {
		return nil, nil
	}
	body, err := slot(now[newest].Sequence+1, k)
	if err != nil {
		return nil, err
	}
	at := SlotAt(into)
	return []Write{{at, make([]byte, Sector)}, {at + Sector, body[Sector:]}, {at, body[:Sector]}}, nil
}

func newest(now [Slots]Header) int {
	if now[1].Sequence > now[0].Sequence {
		return 1
	}
	return 0
}

// Newest returns the header of the slot that GRUB starts.
func Newest(now [Slots]Header) Header { return now[newest(now)] }
