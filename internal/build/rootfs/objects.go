package rootfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/rawdigest"
	"pando/internal/steps"
	"pando/internal/store"
	"pando/internal/workdir"
)

// Storer cuts the raw image of a root file system into chunks and stores them as objects.
type Storer struct {
	Store     *store.Dir // must be locked
	Format    string     // image.Erofs or image.Squashfs
	ChunkSize int        // raw bytes of the largest chunk
	Workers   int        // chunks compressed at once
	Counter   *Counter
	Progress  func(steps.Progress)

	Work   *workdir.Dir
	Enc    *chunk.Encoder
	Root   image.Root
	Sizes  image.Sizes
	Chunks int // extents that have an object
}

// Run stores the chunks, the index pages and the index root.
func (b *Storer) Run(ctx context.Context) error {
	f, err := os.Open(b.Work.File(rawImage))
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := imagefs.OpenFileSystem(b.Format, f)
	if err != nil {
		return err
	}
	files, inodes, err := raw.Files()
	if err != nil {
		return err
	}
	extents := make([]chunk.Extent, len(files))
	for i, file := range files {
		extents[i] = chunk.Extent{Start: file.Start, Size: file.Size, Name: file.Path}
	}
	sizes, err := chunk.Split(raw.Size(), extents, b.ChunkSize)
	if err != nil {
		return err
	}
	stored, err := b.storeRoot(ctx, f, sizes)
	if err != nil {
		return err
	}
	b.Root.FileSystem, b.Root.Size, b.Root.ChunkSize = b.Format, raw.Size(), b.ChunkSize
	b.Sizes = image.Sizes{Stored: stored, Files: inodes}
	return nil
}

// storeRoot stores all objects of the root file system and returns their bytes; an object that occurs twice counts
// once.
func (b *Storer) storeRoot(ctx context.Context, f *os.File, sizes []int) (stored int64, err error) {
	memory, err := rawdigest.Open(b.Store)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, memory.Save()) }() // also after an interruption, for the next build
	w := b.Store.NewWriter()
	defer w.Close()
	entries, err := b.storeChunks(ctx, f, sizes, memory, w)
	if err != nil {
		return 0, err
	}
	distinct := map[chunk.ID]int{}
	for _, e := range entries {
		if e.Codec != chunk.Zero {
			distinct[e.ID] = e.StoredSize
			b.Chunks++
		}
		if e.Codec != chunk.Zero {
			b.Counter.ids[e.ID] = true
		}
	}
	index, err := chunk.NewIndex(entries, b.ChunkSize, b.Enc)
	if err != nil {
		return 0, err
	}
	for _, page := range append(index.Pages, index.Root) {
		id, err := b.Counter.Put(ctx, w, page)
		if err != nil {
			return 0, err
		}
		distinct[id] = len(page)
		b.Root.Index = id // the last index object is the root
	}
	for _, n := range distinct {
		stored += int64(n)
	}
	return stored, w.Sync(ctx)
}

// Counter counts the objects of a version.
type Counter struct {
	ids      map[chunk.ID]bool
	New      int64 // objects that the store did not have
	NewBytes int64 // bytes of those, as stored
}

// NewCounter returns an empty Counter.
func NewCounter() *Counter { return &Counter{ids: map[chunk.ID]bool{}} }

// All returns the number of distinct objects.
func (c *Counter) All() int64 { return int64(len(c.ids)) }

// storeWriter is the part of store.Writer that Counter.Put needs.
type storeWriter interface {
	Put(ctx context.Context, stored []byte) (id chunk.ID, isNew bool, err error)
}

// Put stores an object and counts it.
func (c *Counter) Put(ctx context.Context, w storeWriter, stored []byte) (chunk.ID, error) {
	id, isNew, err := w.Put(ctx, stored)
	if err != nil {
		return id, err
	}
	c.ids[id] = true
	if isNew {
		c.New++
		c.NewBytes += int64(len(stored))
	}
	return id, nil
}

// packed is a chunk that a worker has compressed and that is not stored yet.
type packed struct {
	i      int // index of the chunk
	entry  chunk.Entry
	digest [32]byte // of the raw bytes
	stored []byte   // nil: a hole, or already stored
	err    error
}

// storeChunks compresses the chunks in several workers and stores them from one goroutine.
func (b *Storer) storeChunks(
	ctx context.Context,
	f *os.File,
	sizes []int,
	memory *rawdigest.Cache, w storeWriter,
) ([]chunk.Entry, error) {
	ctx, cancel := context.WithCancel(ctx)
	starts := make([]int64, len(sizes))
	total := int64(0)
	for i, n := range sizes {
		starts[i], total = total, total+int64(n)
	}
	out := make(chan packed, b.Workers)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range b.Workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(sizes) {
					return
				}
				p := b.pack(f, starts[i], sizes[i], memory)
				p.i = i
				select {
				case out <- p:
				case <-ctx.Done():
				}
			}
		})
	}
	go func() { wg.Wait(); close(out) }()
	defer func() { // workers must end before the file is closed
		cancel()
		wg.Wait()
	}()
	return b.collect(ctx, out, starts, total, memory, w)
}

// saveEvery is the number of chunks after which the cache of raw digests is saved, so that a build that was killed
// need not compress them again.
const saveEvery = 2048

func (b *Storer) collect(ctx context.Context, out <-chan packed, starts []int64, total int64,
	memory *rawdigest.Cache, w storeWriter) ([]chunk.Entry, error) {
	entries := make([]chunk.Entry, len(starts))
	left, done := len(starts), int64(0)
	for p := range out {
		if p.err != nil {
			return nil, p.err
		}
		if p.stored != nil {
			if _, err := b.Counter.Put(ctx, w, p.stored); err != nil {
				return nil, err
			}
			memory.Add(p.digest, p.entry)
		}
		entries[p.i] = p.entry
		left--
		done += int64(p.entry.RawSize)
		if left%saveEvery == 0 {
			if err := memory.Save(); err != nil {
				return nil, err
			}
		}
		if left%64 == 0 {
			b.Progress(steps.Progress{Done: done, Total: total, Unit: "bytes"})
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if left != 0 {
		return nil, fmt.Errorf("%d chunks were not packed", left)
	}
	return entries, nil
}

// pack reads and compresses one chunk, unless the cache of raw digests knows its object.
func (b *Storer) pack(f *os.File, start int64, size int, memory *rawdigest.Cache) packed {
	if data, _, err := nextData(f, start, start+int64(size)); err == nil && data == start+int64(size) {
		return packed{entry: chunk.Entry{RawSize: size, Codec: chunk.Zero}} // a hole is not read
	}
	raw := make([]byte, size)
	if _, err := f.ReadAt(raw, start); err != nil {
		return packed{err: fmt.Errorf("read raw image at %d: %w", start, err)}
	}
	if chunk.IsZero(raw) {
		return packed{entry: chunk.Entry{RawSize: size, Codec: chunk.Zero}}
	}
	digest := rawdigest.Sum(raw)
	if e, ok := memory.Find(digest, size); ok {
		return packed{entry: e, digest: digest}
	}
	stored, codec := b.Enc.Encode(raw)
	e := chunk.Entry{RawSize: size, StoredSize: len(stored), Codec: codec, ID: chunk.Sum(stored)}
	return packed{entry: e, digest: digest, stored: stored}
}
