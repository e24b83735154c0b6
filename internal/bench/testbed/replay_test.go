package testbed

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/trace"
)

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// Reads of one millisecond are a burst, reads after the boot are left out, and pauses keep their proportions.
func TestScript(t *testing.T) {
	reads := []trace.Read{
		{Start: 5, Blocks: 1, At: at(2)},
		{Start: 9, Blocks: 2, At: at(2)},
		{Start: 1, Blocks: 1, At: at(10)},
		{Start: 7, Blocks: 1, At: at(99)},
	}
	s := NewScript(packer.Recording{Reads: reads, Booted: at(50)})
	if len(s.reads) != 3 || s.length != at(10) {
		t.Fatalf("got %d reads in %s", len(s.reads), s.length)
	}
	if want := []Burst{{0, 2, at(2)}, {2, 3, at(8)}}; !slices.Equal(s.bursts, want) {
		t.Errorf("got %v, want %v", s.bursts, want)
	}
	if want := []Burst{{0, 2, at(200)}, {2, 3, at(800)}}; !slices.Equal(s.Scaled(time.Second), want) {
		t.Errorf("scaled: got %v, want %v", s.Scaled(time.Second), want)
	}
	if s := NewScript(packer.Recording{Reads: reads}); len(s.reads) != 4 {
		t.Errorf("without a time of `booted`: %d reads, want all", len(s.reads))
	}
	all := NewScript(packer.Recording{Reads: []trace.Read{{Start: 1, Blocks: 1}}})
	if got := all.Scaled(time.Second); len(got) != 1 || got[0].Think != 0 {
		t.Errorf("a boot that took no time: %v", got)
	}
}

// memory is a root that is held in memory.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(m)) {
		return 0, io.ErrUnexpectedEOF
	}
	return copy(p, m[off:]), nil
}

func TestReplayComparesEveryByte(t *testing.T) {
	root := make(memory, 8*chunk.BlockSize)
	for i := range root {
		root[i] = byte(i * 7)
	}
	m := &Material{
		Boot: NewScript(packer.Recording{Reads: []trace.Read{{Start: 4, Blocks: 2}, {Start: 0, Blocks: 1, At: at(1)}}}),
	}
	for _, r := range m.Boot.reads {
		m.want = append(m.want, bytes.Clone(root[int(r.Start)*chunk.BlockSize:][:int(r.Blocks)*chunk.BlockSize]))
	}
	waits, err := m.Replay(t.Context(), root, m.Boot.Scaled(0), bench.Pause)
	if err != nil || len(waits) != 2 {
		t.Fatalf("got %v, %v", waits, err)
	}
	root[6*chunk.BlockSize-1]++
	if _, err := m.Replay(t.Context(), root, m.Boot.Scaled(0), bench.Pause); err == nil ||
		!strings.Contains(err.Error(), "wrong bytes") {
		t.Errorf("the last byte of a read is another: got %v", err)
	}
	if _, err := m.Replay(t.Context(), root[:5*chunk.BlockSize], m.Boot.Scaled(0), bench.Pause); !errors.Is(
		err,
		io.ErrUnexpectedEOF,
	) {
		t.Errorf("a root that ends: got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := m.Replay(ctx, root, m.Boot.Scaled(time.Hour), bench.Pause); err == nil {
		t.Error("a boot went on after its end")
	}
	if got := Stall([]time.Duration{at(1), at(5), at(3)}, []Burst{{0, 2, 0}, {2, 3, 0}}); got != at(8) {
		t.Errorf("stall: got %s, want 8ms", got)
	}
}
