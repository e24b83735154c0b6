package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	pin "github.com/pin/tftp/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content returns n bytes that differ from block to block.
func content(n int) []byte {
	b := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(b)
	return b
}

// files serves a map.
func files(m map[string][]byte) Files {
	return FilesFunc(func(_ context.Context, r Request) (Content, error) {
		b, ok := m[r.Name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return bytes.NewReader(b), nil
	})
}

// running starts a server on loopback. It reports finished transfers on the channel.
func running(t *testing.T, s *Server) (*net.UDPAddr, <-chan Transfer) {
	t.Helper()
	done := make(chan Transfer, 100)
	s.Done = func(x Transfer) { done <- x }
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx, conn); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return conn.LocalAddr().(*net.UDPAddr), done
}

func finished(t *testing.T, done <-chan Transfer) Transfer {
	t.Helper()
	select {
	case x := <-done:
		return x
	case <-time.After(20 * time.Second):
		t.Fatal("transfer did not finish")
		return Transfer{}
	}
}

// A foreign client reads files of all the lengths that matter, with and without options.
func TestForeignClient(t *testing.T) {
	sizes := []int{0, 1, 511, 512, 513, 1024, 100_000, 1468 * 7}
	m := map[string][]byte{}
	for _, n := range sizes {
		m[fmt.Sprint(n)] = content(n)
	}
	addr, done := running(t, &Server{Files: files(m)})
	for _, block := range []int{0, 512, 1024, 1468, 65464} {
		for _, n := range sizes {
			c, err := pin.NewClient(addr.String())
			if err != nil {
				t.Fatal(err)
			}
			c.RequestTSize(true)
			if block > 0 {
				c.SetBlockSize(block)
			}
			w, err := c.Receive(fmt.Sprint(n), "octet")
			if err != nil {
				t.Fatalf("block %d, size %d: %v", block, n, err)
			}
			var got bytes.Buffer
			if _, err := w.WriteTo(&got); err != nil || !bytes.Equal(got.Bytes(), m[fmt.Sprint(n)]) {
				t.Errorf("block %d, size %d: %d bytes, %v", block, n, got.Len(), err)
			}
			if x := finished(t, done); x.Err != nil || x.Bytes != int64(n) || x.Size != int64(n) ||
				x.Local.String() != "127.0.0.1" {
				t.Errorf("block %d, size %d: %+v", block, n, x)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	asked := make(chan string, 10)
	s := &Server{Files: FilesFunc(func(_ context.Context, r Request) (Content, error) {
		asked <- r.Name
		if r.Name == "secret" {
			return nil, fs.ErrPermission
		}
		return nil, fs.ErrNotExist
	})}
	addr, _ := running(t, s)
	tests := []struct {
		packet string
		code   uint16
		asked  bool
	}{
		{"\x00\x01none\x00octet\x00", codeNotFound, true},
		{"\x00\x01secret\x00octet\x00", codeAccess, true},
		{"\x00\x01../../etc/passwd\x00octet\x00", codeAccess, false},
		{"\x00\x01..\\x\x00octet\x00", codeAccess, false},
		{"\x00\x01/\x00octet\x00", codeAccess, false},
		{"\x00\x02new\x00octet\x00", codeAccess, false},
		{"\x00\x01f\x00mail\x00", codeIllegal, false},
		{"\x00\x01f\x00", codeIllegal, false},
		{"\x00\x03\x00\x01data", codeIllegal, false},
		{"\x00\x09\x00\x01", codeIllegal, false},
	}
	for _, tt := range tests {
		p := newPeer(t, addr)
		p.send([]byte(tt.packet))
		got := p.read()
		if binary.BigEndian.Uint16(got) != opError || binary.BigEndian.Uint16(got[2:]) != tt.code {
			t.Errorf("%q: answered %q, want error %d", tt.packet, got, tt.code)
		}
		if (len(asked) == 1) != tt.asked {
			t.Errorf("%q: files asked %d times", tt.packet, len(asked))
		}
		for len(asked) > 0 {
			<-asked
		}
	}
}

func TestSizeProbeIsNoFailure(t *testing.T) {
	addr, done := running(t, &Server{Files: files(map[string][]byte{"f": content(3000)})})
	p := newPeer(t, addr)
	b, err := os.ReadFile("testdata/packets/ovmf-size.bin")
	if err != nil {
		t.Fatal(err)
	}
	p.send(bytes.Replace(b, []byte("snponly.efi"), []byte("f"), 1))
	if got, want := p.read(), "\x00\x06tsize\x003000\x00blksize\x001468\x00windowsize\x004\x00"; string(got) != want {
		t.Errorf("options answered with %q, want %q", got, want)
	}
	p.send([]byte("\x00\x05\x00\x08User aborted the transfer\x00"))
	if x := finished(t, done); !x.Probe() || x.Bytes != 0 || x.Size != 3000 {
		t.Errorf("transfer %+v, want a probe", x)
	}
}

func TestLimits(t *testing.T) {
	hold := make(chan struct{})
	s := &Server{MaxPerPeer: 2, Files: FilesFunc(func(context.Context, Request) (Content, error) {
		<-hold
		return bytes.NewReader(nil), nil
	})}
	addr, done := running(t, s)
	var peers []*peer
	for range 5 {
		p := newPeer(t, addr)
		p.send([]byte("\x00\x01f\x00octet\x00"))
		p.send([]byte("\x00\x01f\x00octet\x00")) // a repeated request is the same transfer
		peers = append(peers, p)
	}
	// The server works through its port in order: when this is answered, it has seen all the others.
	last := newPeer(t, addr)
	last.send([]byte("\x00\x02x\x00octet\x00"))
	last.read()
	s.mu.Lock()
	if len(s.places.busy) != 2 {
		t.Errorf("%d transfers under way, want 2", len(s.places.busy))
	}
	s.mu.Unlock()
	close(hold)
	for _, p := range peers[:2] {
		if got := p.read(); !bytes.Equal(got, []byte{0, opData, 0, 1}) {
			t.Errorf("got %x", got)
		}
		p.ack(1)
		finished(t, done)
	}
}

func TestNetascii(t *testing.T) {
	addr, done := running(
		t,
		&Server{Files: files(map[string][]byte{"f": []byte("a\nb\rc\r\n"), "big": content(maxText + 1)})},
	)
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00netascii\x00"))
	if got, want := p.read(), "\x00\x03\x00\x01a\r\nb\r\x00c\r\x00\r\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.ack(1)
	if x := finished(t, done); x.Err != nil {
		t.Error(x.Err)
	}
	p = newPeer(t, addr)
	p.send([]byte("\x00\x01big\x00netascii\x00"))
	if got := p.read(); got[1] != opError {
		t.Errorf("a large file in netascii: %.40q", got)
	}
	if x := finished(t, done); x.Err == nil {
		t.Error("a large file in netascii was sent")
	}
}

func TestStopEndsTransfers(t *testing.T) {
	done := make(chan Transfer, 1)
	s := &Server{Files: files(map[string][]byte{"f": content(5000)}), Done: func(x Transfer) { done <- x }}
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, conn) }()
	p := newPeer(t, conn.LocalAddr().(*net.UDPAddr))
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.read()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if x := <-done; !errors.Is(x.Err, context.Canceled) {
		t.Errorf("transfer ended with %v", x.Err)
	}
}
