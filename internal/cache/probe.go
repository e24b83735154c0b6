package cache

import (
	"fmt"
	"io"
)

// Probe tells whether an area begins as a cache does.
func Probe(a io.ReaderAt) bool {
	b := make([]byte, superSize)
	if _, err := a.ReadAt(b, 0); err != nil {
		return false
	}
	_, err := decodeSuper(b, MaxSize)
	return err == nil
}

// Blank tells whether an area has no cache at either end, so that one may be made there. An end that cannot be read is an
// error: there may be one.
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
