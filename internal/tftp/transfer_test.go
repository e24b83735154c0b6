package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"testing"
	"time"
)

// peer is a client that a test controls.
type peer struct {
	t      *testing.T
	conn   *net.UDPConn
	server *net.UDPAddr // the port that the last packet came from
}

func newPeer(t *testing.T, server *net.UDPAddr) *peer {
	t.Helper()
	return peerAt(t, server, net.IPv4(127, 0, 0, 1))
}

// peerAt returns a peer with an address of its own.
func peerAt(t *testing.T, server *net.UDPAddr, ip net.IP) *peer {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &peer{t: t, conn: conn, server: server}
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.conn.WriteToUDP(b, p.server); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) ack(block uint16) {
	p.t.Helper()
	p.send([]byte{0, opAck, byte(block >> 8), byte(block)})
}

func (p *peer) read() []byte {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 65536)
	n, from, err := p.conn.ReadFromUDP(buf)
	if err != nil {
		p.t.Fatal(err)
	}
	p.server = from
	return buf[:n]
}

// data reads a data packet and checks its number.
func (p *peer) data(block uint16) []byte {
	p.t.Helper()
	b := p.read()
	if binary.BigEndian.Uint16(b) != opData || binary.BigEndian.Uint16(b[2:]) != block {
		p.t.Fatalf("got %x..., want data block %d", b[:4], block)
	}
	return b[4:]
}

// silent fails if something arrives.
func (p *peer) silent(d time.Duration) {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(d))
	buf := make([]byte, 1500)
	if n, _, err := p.conn.ReadFromUDP(buf); err == nil {
		p.t.Fatalf("got %x..., want nothing", buf[:min(n, 4)])
	}
}

// Windows follow RFC 7440 section 4: the peer acknowledges only the last block. It requests a lost block again by
// acknowledging the block before it, once or for each block that follows.
func TestWindow(t *testing.T) {
	want := content(10 * 512)
	addr, done := running(t, &Server{Files: files(map[string][]byte{"f": want}), Timeout: 5 * time.Second})
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00windowsize\x004\x00"))
	if got := p.read(); string(got) != "\x00\x06windowsize\x004\x00" {
		t.Fatalf("options answered with %q", got)
	}
	p.ack(0)
	var got []byte
	for n := uint16(1); n <= 4; n++ {
		got = append(got, p.data(n)...)
	}
	p.ack(4)
	got = append(got, p.data(5)...)
	p.data(6) // as if lost: 7 and 8 come, 5 is acknowledged
	p.data(7)
	p.data(8)
	p.ack(5)
	for n := uint16(6); n <= 9; n++ {
		got = append(got, p.data(n)...)
	}
	p.ack(9)
	p.data(10) // the whole next window is lost but for its end; its acknowledgement comes twice
	p.data(11)
	p.ack(9)
	p.ack(9)
	got = append(got, p.data(10)...)
	if last := p.data(11); len(last) != 0 {
		t.Errorf("last block has %d bytes", len(last))
	}
	p.silent(200 * time.Millisecond)
	p.ack(11)
	if x := finished(t, done); x.Err != nil || x.Bytes != int64(len(want)) || x.Retries != 1 {
		t.Errorf("%+v", x)
	}
	if !bytes.Equal(got, want) {
		t.Error("content differs")
	}
}

// Without windows a repeated acknowledgement is not answered: the "sorcerer's apprentice".
func TestRepeatedAckIsNotAnswered(t *testing.T) {
	addr, done := running(t, &Server{Files: files(map[string][]byte{"f": content(1000)}), Timeout: 5 * time.Second})
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.data(1)
	p.ack(1)
	p.data(2)
	p.ack(1)
	p.ack(0)
	p.ack(77)
	p.silent(200 * time.Millisecond)
	p.ack(2)
	if x := finished(t, done); x.Err != nil || x.Retries != 0 {
		t.Errorf("%+v", x)
	}
}

func TestRetransmission(t *testing.T) {
	addr, done := running(
		t,
		&Server{Files: files(map[string][]byte{"f": content(10)}), Timeout: 20 * time.Millisecond, Retries: 3},
	)
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00tsize\x000\x00"))
	for range 4 {
		if b := p.read(); b[1] != opOption {
			t.Fatalf("got %q", b)
		}
	}
	if b := p.read(); b[1] != opError {
		t.Errorf("got %q, want the end", b)
	}
	if x := finished(t, done); !errors.Is(x.Err, errGone) || x.Retries != 4 {
		t.Errorf("%+v", x)
	}

	p = newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.data(1)
	p.data(1)
	p.ack(1)
	if x := finished(t, done); x.Err != nil || x.Retries < 1 {
		t.Errorf("%+v", x)
	}
}

func TestPeerBreaksOffAndGoesAway(t *testing.T) {
	addr, done := running(
		t,
		&Server{Files: files(map[string][]byte{"f": content(5000)}), Timeout: 20 * time.Millisecond},
	)
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.data(1)
	p.send([]byte("\x00\x05\x00\x03disk full\x00"))
	var fromPeer *PeerError
	if x := finished(t, done); !errors.As(x.Err, &fromPeer) || fromPeer.Code != 3 || fromPeer.Message != "disk full" {
		t.Errorf("%+v", x)
	}
	p = newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.data(1)
	p.conn.Close() // the kernel answers the next block with "port unreachable"
	if x := finished(t, done); !errors.As(x.Err, &fromPeer) || fromPeer.Code != codeUnknownTID {
		t.Errorf("%+v", x)
	}
}

// The number of a block has 16 bits and rolls over to 0.
func TestRollover(t *testing.T) {
	want := content(8 * 66_000)
	addr, done := running(t, &Server{Files: files(map[string][]byte{"f": want}), Timeout: 5 * time.Second})
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00blksize\x008\x00windowsize\x0064\x00"))
	p.read()
	p.ack(0)
	var got bytes.Buffer
	for block := 1; ; block++ {
		b := p.data(uint16(block))
		got.Write(b)
		if block%64 == 0 || len(b) < 8 {
			p.ack(uint16(block))
		}
		if len(b) < 8 {
			break
		}
	}
	if x := finished(t, done); x.Err != nil {
		t.Error(x.Err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("content differs")
	}
}

// A packet of another sender to the port of a transfer changes nothing (RFC 1350 section 4).
func TestUnknownPeerIsIgnored(t *testing.T) {
	addr, done := running(t, &Server{Files: files(map[string][]byte{"f": content(600)}), Timeout: 5 * time.Second})
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	p.data(1)
	unknownPeer := newPeer(t, p.server)
	unknownPeer.send([]byte("\x00\x05\x00\x00stop\x00"))
	p.ack(1)
	p.data(2)
	p.ack(2)
	if x := finished(t, done); x.Err != nil {
		t.Error(x.Err)
	}
}

// TestContentThatLies: a content shorter than it says ends the transfer with an error and not with a short file.
func TestContentThatLies(t *testing.T) {
	addr, done := running(t, &Server{Files: FilesFunc(func(context.Context, Request) (Content, error) {
		return liar{bytes.NewReader(content(100))}, nil
	})})
	p := newPeer(t, addr)
	p.send([]byte("\x00\x01f\x00octet\x00"))
	if b := p.read(); b[1] != opError {
		t.Errorf("got %x", b[:4])
	}
	if x := finished(t, done); x.Err == nil {
		t.Error("no error")
	}
}

type liar struct{ *bytes.Reader }

func (liar) Size() int64 { return 5000 }
