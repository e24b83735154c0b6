package tftp

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A request without an acknowledgement ends in seconds, even if the peer names a long timeout.
func TestUnacknowledgedEndsSoon(t *testing.T) {
	s := &Server{Files: files(map[string][]byte{"f": content(5000)}), FirstAck: 300 * time.Millisecond}
	addr, done := running(t, s)
	for _, request := range []string{
		"f\x00octet\x00", "f\x00octet\x00timeout\x008\x00", "f\x00octet\x00timeout\x00255\x00",
	} {
		p := newPeer(t, addr)
		p.send([]byte("\x00\x01" + request))
		if x := finished(t, done); !errors.Is(x.Err, errGone) && !strings.Contains(x.Err.Error(), errGone.Error()) ||
			x.Duration > 2*time.Second {
			t.Errorf("%q: %v after %s", request, x.Err, x.Duration)
		}
	}
	r, err := parseRequest([]byte("f\x00octet\x00timeout\x00255\x00"))
	if err != nil || r.timeout != 0 || len(r.options) > 0 {
		t.Errorf("a time-out of 255 s is taken: %+v, %v", r, err)
	}
}

// A peer that acknowledges only now and then does not keep its place for hours.
func TestSlowPeerEnds(t *testing.T) {
	for _, k := range []struct {
		began time.Duration
		size  int64
		acked bool
		ends  bool
	}{
		{time.Second, 1 << 20, false, false},
		{firstAck, 1 << 20, false, true},
		{firstAck, 1 << 20, true, false},
		{leastTime + time.Minute, 1 << 20, true, false},
		{leastTime + 3*time.Minute, 1 << 20, true, true},
		{leastTime + time.Second, 1000, true, true},
	} {
		tx := &sender{first: firstAck, acked: k.acked, t: &Transfer{Started: time.Now().Add(-k.began), Size: k.size}}
		if _, err := tx.due(time.Second); errors.Is(err, errGone) != k.ends {
			t.Errorf("%+v: %v", k, err)
		}
	}
}

// Made-up addresses use the places of their subnet, or those of all unknown peers; booting nodes have other places. All
// dropped requests together cost one log line.
func TestKnownNodesHavePlaces(t *testing.T) {
	var log bytes.Buffer
	node := netip.MustParseAddr("127.0.0.200")
	s := &Server{
		Files:        files(map[string][]byte{"f": content(100)}),
		MaxTransfers: 20, MaxUnknown: 12, MaxPerSubnet: 8, MaxPerPeer: 2,
		Known: func(a netip.Addr) bool { return a == node }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	addr, _ := running(t, s)
	flood := func(third byte) {
		for i := range byte(30) {
			peerAt(t, addr, net.IPv4(127, 0, third, 1+i)).send([]byte("\x00\x01f\x00octet\x00"))
		}
		last := newPeer(t, addr) // when this is answered, all before it were seen
		last.send([]byte("\x00\x02x\x00octet\x00"))
		last.read()
	}
	under := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.places.busy)
	}
	if flood(0); under() != 8 {
		t.Errorf("%d transfers of one subnet", under())
	}
	if flood(1); under() != 12 {
		t.Errorf("%d transfers of two subnets", under())
	}
	p := peerAt(t, addr, node.AsSlice())
	p.send([]byte("\x00\x01f\x00octet\x00"))
	if got := p.data(1); len(got) != 100 {
		t.Errorf("the node got %d bytes", len(got))
	}
	p.ack(1)
	if n := strings.Count(log.String(), "too many transfers"); n != 1 {
		t.Errorf("%d lines for what was dropped", n)
	}
}
