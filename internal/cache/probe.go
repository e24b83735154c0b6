package cache

import (
	"fmt"
	"io"
)

// Probe reports whether an area begins like a cache.
func Probe(a io.ReaderAt) bool {
	b := make([]byte, superSize)
	if _, err := a.ReadAt(b, 0); err != nil {
		return false
	}
	_, err := decodeSuper(b, MaxSize)
	return err == nil
}

// Cut returns the size of a cache that is larger than its area, because the area has shrunk. Such a cache cannot be
// opened. It returns 0 otherwise.
func Cut(a io.ReaderAt, size int64) int64 {
	b := make([]byte, superSize)
	if _, err := a.ReadAt(b, 0); err != nil {
		return 0
	}
	s, err := decodeSuper(b, MaxSize)
	if err != nil || s.size <= size {
		return 0
	}
	return s.size
}

// Blank reports whether an area has no usable cache at either end, so that one may be made. If an end cannot be read it
// returns an error, because a cache may be there.
func Blank(a io.ReaderAt, size int64) (bool, error) {
	l, err := newLayout(size)
	if err != nil {
		return false, err
	}
	for _, at := range []int64{0, l.copyAt()} {
		b := make([]byte, superSize)
		if _, err := a.ReadAt(b, at); err != nil {
			return false, fmt.Errorf("look for a cache: %w", err)
		}
		if _, err := decodeSuper(b, l.size); err == nil {
			return false, nil
		}
	}
	return true, nil
}
