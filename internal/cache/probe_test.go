package cache

import (
	"errors"
	"testing"
)

// An area is blank when there is no cache at either end, and both could be read.
func TestBlank(t *testing.T) {
	m := formatted(t, testSize)
	for _, c := range []struct {
		what string
		want bool
		at   int64 // offset of a block that is cleared; -1: none
	}{{"a cache", false, -1}, {"one whose first block is damaged", false, 0}, {"one that has neither " +
		"superblock", true, m.size() - block}} {
		if c.at >= 0 {
			clear(m.now[c.at:][:block])
		}
		if got, err := Blank(m, m.size()); got != c.want || err != nil {
			t.Errorf("%s: blank is %v, %v", c.what, got, err)
		}
	}
	if _, err := Blank(m, MinSize-1); err == nil {
		t.Error("a small area may become a cache")
	}
	gone := errors.New("no such device")
	m.fail("read", gone)
	if _, err := Blank(m, m.size()); !errors.Is(err, gone) {
		t.Errorf("an area that cannot be read: %v", err)
	}
}

// A cache counts as cut when its area has shrunk, not when it has grown.
func TestCut(t *testing.T) {
	m := formatted(t, testSize)
	for size, want := range map[int64]int64{testSize: 0, testSize + block: 0, testSize + 1: 0, testSize - 1: testSize,
		MinSize - 1: testSize} {
		if got := Cut(m, size); got != want {
			t.Errorf("in %d bytes: cut is %d, want %d", size, got, want)
		}
	}
	clear(m.now[:block])
	if got := Cut(m, MinSize); got != 0 {
		t.Errorf("no cache, cut: %d", got)
	}
}
