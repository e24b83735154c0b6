package imagefs

import (
	"testing"
)

func TestRootMapAt(t *testing.T) {
	m := NewMap(
		1<<20,
		[]File{
			{Path: "b", Start: 30, Blocks: 2, Inode: 1},
			{Path: "a", Start: 10, Blocks: 5, Inode: 2},
			{Path: "none", Inode: 2},
		},
	)
	for block, want := range map[uint32]string{0: "", 9: "", 10: "a", 14: "a", 15: "", 31: "b", 32: ""} {
		f, ok := m.At(block)
		if ok != (want != "") || ok && f.Path != want {
			t.Errorf("block %d is in %q, %v; want %q", block, f.Path, ok, want)
		}
	}
	if n := len(m.InodesIn(2)); n != 2 {
		t.Errorf("block 2 has %d inodes", n)
	}
}
