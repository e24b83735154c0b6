package blockd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/chunk"
)

// aloneConfig returns an origin with an image of this many blocks, and a configuration for it.
func aloneConfig(t *testing.T, blocks int) (*testOrigin, blockapi.Config) {
	t.Helper()
	if unix.Geteuid() != 0 {
		t.Skip("locking memory without a limit needs root")
	}
	o := newTestOrigin(t, blocks)
	return o, blockapi.Config{
		Index:     o.index,
		Size:      int64(len(o.raw)),
		ChunkSize: chunk.DefaultChunkSize,
		Servers:   []string{o.url},
	}
}

func startAlone(ctx context.Context, t *testing.T, c blockapi.Config) (*Alone, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	return StartAlone(ctx, self, t.TempDir(), c, null)
}

func TestBlockAlone(t *testing.T) {
	o, c := aloneConfig(t, 400)
	a, err := startAlone(t.Context(), t, c)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 300*4096)
	if _, err := a.Device.ReadAt(got, 4096); err != nil || !bytes.Equal(got, o.raw[4096:][:len(got)]) {
		t.Errorf("wrong bytes, or %v", err)
	}
	st, err := a.Client.Status(t.Context(), 0)
	if err != nil || st.ReadBytes != int64(len(got)) || st.PID != a.PID() {
		t.Errorf("status: %d bytes read by process %d, %v; want %d by %d", st.ReadBytes, st.PID, err, len(got), a.PID())
	}
	r, err := a.Client.EndReads(t.Context())
	if err != nil || r.Count == 0 {
		t.Errorf("recording: %d reads, %v", r.Count, err)
	}
	a.Close()
	if err := unix.Kill(a.PID(), 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("process %d after Close: %v", a.PID(), err)
	}
}

func TestBlockAloneThatCannotStart(t *testing.T) {
	_, c := aloneConfig(t, 40)
	broken := c
	broken.Size += 4096
	if _, err := startAlone(t.Context(), t, broken); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("an index of another size: got %v", err)
	}
	broken.Servers = nil
	if _, err := startAlone(t.Context(), t, broken); err == nil || !strings.Contains(err.Error(), "no servers") {
		t.Errorf("a configuration without servers: got %v", err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errors.New("no time left"))
	defer cancel()
	c.Servers = []string{"http://192.0.2.1:1"} // no server answers there
	if _, err := startAlone(ctx, t, c); err == nil || !strings.Contains(err.Error(), "no time left") {
		t.Errorf("a server that is not there: got %v", err)
	}
}
