package blockdev

import (
	"sync"

	"pando/internal/chunk"
)

// readAhead remembers where the last few reads ended. A read that starts at such an end continues a sequential read.
type readAhead struct {
	mu    sync.Mutex
	ends  [8]int64 // 0: free; no read ends at 0
	runs  [8]int   // number of reads in a row
	next  int      // index of the next entry to replace
	until [8]int64 // raw offset up to which bytes were fetched ahead
}

// note records a read and returns the range to fetch ahead, which is empty if there is none. window is in bytes.
func (r *readAhead) note(off, n, window int64) (from, to int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, end := range r.ends {
		if end == 0 || end != off {
			continue
		}
		r.ends[i] = off + n
		r.runs[i]++
		// Two reads in a row may be chance, and a small file has no more. Three mean a file that is read in order.
		if r.runs[i] < 2 {
			return 0, 0
		}
		from = max(r.until[i], off+n)
		to = max(from, off+n+window)
		r.until[i] = to
		return from, to
	}
	r.ends[r.next], r.runs[r.next], r.until[r.next] = off+n, 0, 0
	r.next = (r.next + 1) % len(r.ends)
	return 0, 0
}

// maxBusy is how many fetches may run when one is started ahead.
const maxBusy = 4

// readAhead fetches what a sequential reader will read next. It skips fetches that would make reads wait.
func (d *Device) readAhead(off, n int64) {
	if d.opts.Ahead < 0 {
		return
	}
	from, to := d.ahead.note(off, n, int64(d.opts.Ahead)*int64(d.root.MaxChunk))
	for to = min(to, d.Size()); from < to && d.raws.busy() < maxBusy; {
		if s := d.layout().first(from, to-from); s.piece >= 0 {
			from += s.n // the pack has it
			continue
		}
		i, base := d.root.Find(from)
		// Do not fetch a page: the read that needs it will.
		page, ok := d.pages.peek(i)
		if !ok {
			return
		}
		p := page.value
		j, start := p.Find(from - base)
		e := p.Entries[j]
		if e.Codec != chunk.Zero {
			c, _ := d.chunk(e)
			d.raws.leave(c)
		}
		from = base + start + int64(e.RawSize)
	}
}
