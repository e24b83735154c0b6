package nbd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a Device in memory. Before is called at the start of every read, when set.
type memory struct {
	data   []byte
	before func(ctx context.Context, off int64) error
}

func (m *memory) Size() int64 { return int64(len(m.data)) }

func (m *memory) ReadAt(ctx context.Context, p []byte, off int64) error {
	if m.before != nil {
		if err := m.before(ctx, off); err != nil {
			return err
		}
	}
	copy(p, m.data[off:])
	return nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// listen serves s on a unix socket until the test ends, and returns the socket's path.
func listen(t *testing.T, s *exportServer) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nbd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return path
}

// client is a raw client, which can break the protocol.
type client struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, path string) client {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{t, c}
}

func (c client) send(parts ...any) {
	c.t.Helper()
	if _, err := c.Write(encode(parts...)); err != nil {
		c.t.Fatal(err)
	}
}

// encode puts numbers in the protocol's byte order, and strings and byte slices as they are.
func encode(parts ...any) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		if s, ok := p.(string); ok {
			p = []byte(s)
		}
		_ = binary.Write(&b, binary.BigEndian, p)
	}
	return b.Bytes()
}

func (c client) recv(n int) []byte {
	c.t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c client) greeting() {
	c.t.Helper()
	if got := c.recv(18); string(got[:16]) != "NBDMAGICIHAVEOPT" {
		c.t.Fatalf("hello is %q", got)
	}
	c.send(uint32(flagFixedNewstyle | flagNoZeroes))
}

func (c client) option(opt uint32, data []byte) (typ uint32, answer []byte) {
	c.t.Helper()
	c.send(uint64(magicOption), opt, uint32(len(data)), data)
	return c.optionReply(opt)
}

func (c client) optionReply(opt uint32) (typ uint32, answer []byte) {
	c.t.Helper()
	h := c.recv(20)
	if binary.BigEndian.Uint64(h) != magicReply || binary.BigEndian.Uint32(h[8:]) != opt {
		c.t.Fatalf("answer to option %d has head %x", opt, h)
	}
	return binary.BigEndian.Uint32(h[12:]), c.recv(int(binary.BigEndian.Uint32(h[16:])))
}

// enter does the handshake with EXPORT_NAME.
func (c client) enter(name string) {
	c.t.Helper()
	c.greeting()
	c.send(uint64(magicOption), uint32(optExportName), uint32(len(name)), name)
	c.recv(10)
}

func (c client) request(cmd uint16, handle, off uint64, n uint32) {
	c.t.Helper()
	c.send(uint32(magicRequest), uint16(0), cmd, handle, off, n)
}

func (c client) reply() (handle uint64, e Errno) {
	c.t.Helper()
	h := c.recv(replySize)
	if binary.BigEndian.Uint32(h) != magicSimple {
		c.t.Fatalf("reply magic is %x", h[:4])
	}
	return binary.BigEndian.Uint64(h[8:]), Errno(binary.BigEndian.Uint32(h[4:]))
}

// closed fails the test unless the server hangs up.
func (c client) closed() {
	c.t.Helper()
	if n, err := io.Copy(io.Discard, c); err != nil || n != 0 {
		if !errors.Is(err, net.ErrClosed) && err != nil {
			return // reset: the server hung up before it read our bytes
		}
		c.t.Fatalf("server sent %d more bytes instead of hanging up (%v)", n, err)
	}
}
