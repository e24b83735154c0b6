package packer

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/image/bootpack"
)

// With zstd, without it, and with a broken zstd, nodes can unpack the piece.
func TestPieceEncoder(t *testing.T) {
	program, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed (Debian package zstd)")
	}
	text := []byte(strings.Repeat("what a boot reads is mostly text of programs\n", 6000))[:64*chunk.BlockSize]
	noise := make([]byte, 32*chunk.BlockSize)
	for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(rng.Uint32())
	}
	bad := t.TempDir()
	if err := os.WriteFile(bad+"/zstd", []byte("#!/bin/sh\necho nothing of the kind\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"zstd": filepath.Dir(program), "none": t.TempDir(),
		"broken": bad + ":/bin"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", path)
			enc, err := newPieceEncoder()
			if err != nil {
				t.Fatal(err)
			}
			for _, raw := range [][]byte{text, noise} {
				stored, e, err := enc.encode(t.Context(), raw)
				if err != nil || e.ID != chunk.Sum(stored) {
					t.Fatalf("%+v, %v", e, err)
				}
				if want := map[bool]chunk.Codec{true: chunk.Zstd,
					false: chunk.Stored}[&raw[0] == &text[0]]; e.Codec != want {
					t.Errorf("%s, want %s", e.Codec, want)
				}
				back := make([]byte, len(raw))
				if err := new(chunk.Decoder).Decode(back, stored, e.Codec); err != nil || !bytes.Equal(back, raw) {
					t.Errorf("unpacked it differs: %v", err)
				}
			}
		})
	}
}

// Blocks that the map has no room for are left out at the end, and the pack is made.
func TestPackOfVeryMuch(t *testing.T) {
	for _, g := range []grain{fine(), coarse()} {
		testFull(t, g)
	}
}

// blocksAlike is a root file system whose blocks are all equal, with no border between pieces.
type blocksAlike struct{}

func (blocksAlike) Block(b []byte, _ uint32) (bool, error) {
	copy(b, "a program")
	return true, nil
}

func testFull(t *testing.T, g grain) {
	t.Helper()
	c := &cutter{grain: g, root: blocksAlike{}, emit: func(raw []byte) ([]chunk.Entry, error) {
		return []chunk.Entry{{RawSize: len(raw), StoredSize: 1, Codec: chunk.Zstd, ID: chunk.Sum(nil)}}, nil
	}}
	var order Order
	for i := range uint32(45_000) { // the same blocks again and again, never two in a row
		order.Extents = append(order.Extents, bootpack.Extent{Start: i % 2 * 2, Blocks: 1})
	}
	if _, err := c.cut(order); err != nil {
		t.Fatal(err)
	}
	pieces, extents := joined(c.pieces)
	n := 64 + 63 + bootpack.PieceSize*len(pieces) + 10*len(extents)
	if !c.full() || n > bootpack.MaxSize || n < bootpack.MaxSize-2000 {
		t.Errorf("%d pieces and %d extents take at most %d bytes", len(pieces), len(extents), n)
	}
	for i, e := range pieces[:len(pieces)-1] {
		if e.RawSize < g.least || e.RawSize > g.most {
			t.Errorf("piece %d has %d bytes, want %d to %d", i, e.RawSize, g.least, g.most)
		}
	}
}

// A server's pack has fine pieces. A desktop's pack, whose boot reads ten times as much, has coarse ones.
func TestGrain(t *testing.T) {
	for mega, want := range map[int]grain{62: fine(), 191: fine(), 192: coarse(), 400: coarse()} {
		o := Order{Extents: []bootpack.Extent{{Blocks: uint32(mega << 20 / chunk.BlockSize)}}}
		if got := o.grain(); got != want {
			t.Errorf("%d MiB: %+v", mega, got)
		}
	}
}
