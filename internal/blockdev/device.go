package blockdev

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"pando/internal/chunk"
)

// ErrBroken means that an object matches its digest and still cannot be used: the image was built wrong. Do not retry.
var ErrBroken = errors.New("the image is broken")

// Options say what to read and how much memory to use. Zero values mean the defaults.
type Options struct {
	Index chunk.ID // index root, from a manifest with a verified signature
	Size  int64    // raw bytes, from the same manifest; 0: as the index says
	Cache int64    // bytes of raw chunks kept; default 4 MiB
	Pages int64    // bytes of index pages kept; default 1 MiB
	// UnpackAhead unpacks the next pieces of the boot pack before reads need them, if a processor is idle.
	UnpackAhead bool
	Ahead       int // chunks fetched ahead of a sequential reader; default 2, negative: none

	Pack *Pack // boot pack to read from; nil: none

	// Served, if set, is called with raw bytes that were answered without a fetch of their own. source is "cache",
	// "zero", or "pack" for bytes of the boot pack. Bytes of pieces that were not fetched, because chunks cost less,
	// are counted again as "spared".
	Served func(source string, bytes int)
}

func (o *Options) defaults() {
	if o.Cache == 0 {
		o.Cache = 4 << 20
	}
	if o.Pages == 0 {
		o.Pages = 1 << 20
	}
	if o.Ahead == 0 {
		o.Ahead = 2
	}
	if o.Served == nil {
		o.Served = func(string, int) {}
	}
}

// Device is a root file system to read. It is safe for concurrent use. Concurrent reads of a chunk share one fetch, and
// reads in order fetch ahead, with connections that no read waits for. Its cache of raw chunks is small, because the
// kernel's page cache keeps what was read: it serves reads in one chunk, and the next request of a sequential read.
type Device struct {
	opts   Options
	src    chunk.Source
	root   *chunk.Root
	rooted chan struct{} // closed when root is set; the boot pack may arrive earlier

	pack     *Pack                      // nil: none
	fetching group[int, chunk.Verified] // fetches of pieces; it keeps no value

	ctx    context.Context // context of fetches, which outlive the read that started them
	cancel context.CancelFunc
	work   sync.WaitGroup

	raws      group[rawKey, *raw]
	bufs      buffers // buffers of raws
	pages     group[int, *chunk.Page]
	decoder   chunk.Decoder
	ahead     readAhead
	unpacking unpackAhead
	demand    demand
}

// rawKey names raw bytes: those of a chunk, or of a piece of the boot pack. A piece may fail to load, a chunk must not.
type rawKey struct {
	id    chunk.ID
	piece bool
}

// Open fetches the index root and checks its size against the manifest. It waits for as long as src does. Meanwhile the
// boot pack is streamed, so that the link is not idle.
func Open(ctx context.Context, src chunk.Source, o Options) (*Device, error) {
	o.defaults()
	d := &Device{opts: o, src: src, rooted: make(chan struct{}), pack: o.Pack}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.raws.kept.limit = o.Cache
	d.pages.kept.limit = o.Pages
	d.raws.freed = func(r *raw) {
		d.shed(r, func(int) bool { return false })
		d.bufs.limit(d.raws.kept.limit - d.raws.kept.cost)
	}
	if d.pack != nil {
		d.startUnpackAhead()
		d.startStreams()
	}
	root, err := fetchRoot(ctx, src, o)
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("open index %s: %w", o.Index, err)
	}
	d.root = root
	close(d.rooted)
	return d, nil
}

func fetchRoot(ctx context.Context, src chunk.Source, o Options) (*chunk.Root, error) {
	v, err := src.Get(ctx, chunk.Request{ID: o.Index})
	if err != nil {
		return nil, err
	}
	if v.ID() != o.Index {
		return nil, fmt.Errorf("got object %s", v.ID())
	}
	root, err := chunk.DecodeRoot(v.Stored())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if o.Size != 0 && root.RawSize() != o.Size {
		return nil, fmt.Errorf("%w: it covers %d bytes, the manifest says %d", ErrBroken, root.RawSize(), o.Size)
	}
	return root, nil
}

// Size is the number of raw bytes.
func (d *Device) Size() int64 { return d.root.RawSize() }

// Close ends all fetches and the reads that wait for them, and returns when they have ended. No read may start after
// it.
func (d *Device) Close() {
	d.cancel()
	d.work.Wait()
}

// extent is an entry of the index with its offset.
type extent struct {
	chunk.Entry
	start int64 // raw offset of its first byte
}

// extents returns the entries that cover n bytes from off.
func (d *Device) extents(ctx context.Context, off, n int64) ([]extent, error) {
	var out []extent
	for end := off + n; off < end; {
		i, base := d.root.Find(off)
		p, err := d.page(ctx, i)
		if err != nil {
			return nil, err
		}
		for off < end && off < base+p.RawSize() {
			j, start := p.Find(off - base)
			out = append(out, extent{p.Entries[j], base + start})
			off = base + start + int64(p.Entries[j].RawSize)
		}
	}
	return out, nil
}

// DropRaw drops the raw bytes of chunks and pieces, so that reads of them ask the source again.
func (d *Device) DropRaw() { d.raws.makeRoom(d.raws.kept.limit) }
