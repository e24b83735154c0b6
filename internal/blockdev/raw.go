package blockdev

import "errors"

// segment is the unit in which raw bytes are kept and dropped, in bytes. The heap has a size class for it. Segments of
// a piece that were read are dropped while the rest waits to be read, because the kernel's page cache keeps what was
// read.
const segment = 32 << 10

// errShed means that the part of a piece that a read wants was dropped, though other parts are kept.
var errShed = errors.New("the part was read before and dropped")

// raw holds the unpacked bytes of an object. A dropped segment is nil.
type raw struct{ segments [][]byte }

// newRaw returns a raw with room for n bytes.
func (d *Device) newRaw(n int) *raw {
	r := &raw{make([][]byte, 0, (n+segment-1)/segment)}
	for ; n > 0; n -= segment {
		r.segments = append(r.segments, d.bufs.get()[:min(n, segment)])
	}
	return r
}

// rawCost returns the memory that n raw bytes take.
func rawCost(n int) int64 { return int64(n+segment-1) / segment * segment }

// cost returns the memory of the segments that are kept.
func (r *raw) cost() (n int64) {
	for _, s := range r.segments {
		n += int64(cap(s))
	}
	return n
}

// has reports whether n bytes from at are kept.
func (r *raw) has(at, n int64) bool {
	for i := at / segment; i*segment < at+n; i++ {
		if r.segments[i] == nil {
			return false
		}
	}
	return true
}

// read copies bytes from at, which must be kept.
func (r *raw) read(dst []byte, at int64) {
	for len(dst) > 0 {
		n := copy(dst, r.segments[at/segment][at%segment:])
		dst, at = dst[n:], at+int64(n)
	}
}

// shed drops the segments that are not wanted any more, and returns the cost of the others.
func (d *Device) shed(r *raw, wanted func(segment int) bool) int64 {
	for i, s := range r.segments {
		if s != nil && !wanted(i) {
			r.segments[i] = nil
			d.bufs.put(s)
		}
	}
	return r.cost()
}
