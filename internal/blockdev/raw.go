package blockdev

import "errors"

// segment is the unit in which raw bytes are kept, in bytes: as much as the heap has a size class for. What was
// read of a piece is let go of while the rest waits to be read, for the kernel keeps what it has read. A desktop's
// boot that read 119 MB unpacked 186 MB with 6 MiB for whole pieces; it unpacks 151 this way, and 147 with segments
// of 4 KiB.
const segment = 32 << 10

// errShed says that what a read wants of a piece is not kept any more, though other parts of it are.
var errShed = errors.New("it was read before, and let go of")

// raw is what an object unpacks to. A segment that was let go of is nil.
type raw struct{ segments [][]byte }

// newRaw has room for n bytes.
func (d *Device) newRaw(n int) *raw {
	r := &raw{make([][]byte, 0, (n+segment-1)/segment)}
	for ; n > 0; n -= segment {
		r.segments = append(r.segments, d.bufs.get()[:min(n, segment)])
	}
	return r
}

// rawCost is the memory of n bytes.
func rawCost(n int) int64 { return int64(n+segment-1) / segment * segment }

// cost is the memory of what is there.
func (r *raw) cost() (n int64) {
	for _, s := range r.segments {
		n += int64(cap(s))
	}
	return n
}

// has reports whether n bytes from at are there.
func (r *raw) has(at, n int64) bool {
	for i := at / segment; i*segment < at+n; i++ {
		if r.segments[i] == nil {
			return false
		}
	}
	return true
}

// read copies bytes from at, which are there.
func (r *raw) read(dst []byte, at int64) {
	for len(dst) > 0 {
		n := copy(dst, r.segments[at/segment][at%segment:])
		dst, at = dst[n:], at+int64(n)
	}
}

// shed lets go of the segments that are not wanted any more, and returns what the others cost.
func (d *Device) shed(r *raw, wanted func(segment int) bool) int64 {
	for i, s := range r.segments {
		if s != nil && !wanted(i) {
			r.segments[i] = nil
			d.bufs.put(s)
		}
	}
	return r.cost()
}
