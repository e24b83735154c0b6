package peer

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/swarm"
)

// counted is a connection that counts its bytes.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// The assumed message sizes match the bytes on the wire.
func TestHeaderBytes(t *testing.T) {
	s := newSite(t, 40, 0)
	wire := new(atomic.Int64)
	c := &http.Client{
		Transport: &http.Transport{
			DisableCompression: true,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return counted{conn, wire}, err
			},
		},
	}
	client := trackerClient{s.URL, c, new(atomic.Int64), new(atomic.Int64)}
	node := netip.MustParseAddrPort("127.0.0.1:8481")
	have := swarm.NewBitmap(40)
	var joined swarm.AnnounceReplyMessage
	if err := client.post(t.Context(), "join",
		swarm.AnnounceMessage{Pack: s.pack.String(), Pieces: 40, Port: 8481, Prefix: 24, Have: have}, &joined,
		time.Minute); err != nil {
		t.Fatal(err)
	}
	local := func(what string, want int64) {
		t.Helper()
		if got := wire.Swap(0); got < want-40 || got > want+40 {
			t.Errorf("%s: %d bytes on the wire, taken for %d", what, got, want)
		}
	}
	local(
		"join",
		swarm.AnnounceBytes(
			swarm.Announcement{Swarm: s.pack.String(), Pieces: 40, Node: node, Have: have},
			joined.Reply(),
		),
	)
	want := []int{0, 1, 2, 3}
	var answer swarm.RequestReplyMessage
	q := swarm.PieceRequest{
		Swarm:   s.pack.String(),
		Node:    node,
		Size:    20_000,
		Request: swarm.Request{Want: want, Limit: 40, Max: 4, Have: have},
	}
	if err := client.post(t.Context(), "ask", swarm.EncodeRequest(q), &answer, time.Minute); err != nil {
		t.Fatal(err)
	}
	local("ask", swarm.RequestBytes(q)+swarm.AnswerBytes(answer.Answer()))
}
