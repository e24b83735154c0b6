package blockd

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
)

// Objects that are read while the daemon holds them can be read without a server, even if they had been read before
// and many other reads followed. Switching it on again loses nothing.
func TestHeldIsReadWithoutServers(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	const blocks, unpacked = 500, 2 << 20 // each block takes 32 KiB unpacked
	o := newTestOrigin(t, blocks)
	k, c, _, stop := supervise(t, o, blockapi.Config{ChunkSize: chunk.BlockSize, Cache: unpacked})
	t.Cleanup(stop)
	read := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if got, err := k.read(int64(i)*4096, 4096); err != nil || !bytes.Equal(got, o.raw[i*4096:][:4096]) {
				t.Fatalf("block %d: wrong bytes or %v", i, err)
			}
		}
	}
	read(0, 20)
	if _, err := c.Hold(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	read(0, 50)
	held, err := c.Hold(t.Context(), false)
	if err != nil || held.Objects < 50 || held.Bytes < 50*chunk.BlockSize || held.Bytes > blockapi.HoldMost ||
		held.Left != 0 {
		t.Fatalf("held: %+v, %v", held, err)
	}
	read(100, blocks)
	o.down.Store(true)
	read(0, 50)
	if _, err := c.Hold(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	read(0, 50)
	if again, err := c.Hold(t.Context(), false); err != nil || again != held {
		t.Errorf("begun again: %+v, %v; was %+v", again, err, held)
	}
	o.down.Store(false)
}

// Objects that do not fit are counted.
func TestHolderIsBounded(t *testing.T) {
	h := &holder{}
	h.hold(true)
	for i := range byte(5) {
		data := bytes.Repeat([]byte{i}, blockapi.HoldMost/4)
		v, err := chunk.Check(chunk.Sum(data), data)
		if err != nil {
			t.Fatal(err)
		}
		h.put(v)
	}
	if held := h.hold(false); held.Objects != 4 || held.Bytes != blockapi.HoldMost || held.Left != 1 {
		t.Errorf("%+v", held)
	}
}
