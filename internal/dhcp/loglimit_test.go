package dhcp

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

// record is a line of a log.
type record struct {
	level slog.Level
	msg   string
	attrs map[string]slog.Value
}

// recorder is a log that keeps its lines. A full one blocks.
type recorder chan record

func (recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r recorder) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r recorder) WithGroup(string) slog.Handler          { return r }
func (r recorder) Handle(_ context.Context, in slog.Record) error {
	out := record{level: in.Level, msg: in.Message, attrs: map[string]slog.Value{}}
	in.Attrs(func(a slog.Attr) bool { out.attrs[a.Key] = a.Value; return true })
	r <- out
	return nil
}

// testLink returns a link without an interface, with the address 10.77.0.1/24.
func testLink() *link {
	return &link{
		ifi:   &net.Interface{Name: "br0"},
		addrs: []netip.Prefix{netip.MustParsePrefix("10.77.0.1/24")},
		read:  time.Now(),
	}
}

// Unreadable packets, and packets beyond maxPackets, cause one log line, and later one line with their number.
func TestDroppedPacketsAreCounted(t *testing.T) {
	good, err := os.ReadFile("testdata/packets/ovmf-pxe-discover.bin")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, msg string
		packet    []byte
	}{
		{"malformed", "dhcp: packet dropped", good[:100]},
		{"too many", "dhcp: request dropped: too many at once", good},
	}
	for _, tt := range tests {
		const packets = 50
		lines := make(recorder, 2*packets)
		s := &Server{
			Log: slog.New(lines),
			Now: func() time.Time { return noon },
			sem: make(chan struct{}),
		} // no room at all
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); s.read(t.Context(), testLink(), conn, false) }()
		loud := 0
		for range packets {
			if _, err := conn.WriteTo(tt.packet, conn.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			got := <-lines
			if got.msg != tt.msg {
				t.Fatalf("%s: %+v", tt.name, got)
			}
			if got.level > slog.LevelDebug {
				loud++
			}
		}
		conn.Close()
		<-done
		if loud != 1 {
			t.Errorf("%s: %d of %d lines are not for debugging", tt.name, loud, packets)
		}
		s.countOften(noon)
		if len(lines) != 0 {
			t.Errorf("%s: counted before the time is over: %+v", tt.name, <-lines)
		}
		s.countOften(noon.Add(time.Second))
		if got := <-lines; got.level != slog.LevelWarn || got.msg != tt.msg ||
			got.attrs["again"].Any() != int64(packets-1) {
			t.Errorf("%s: the count is %+v", tt.name, got)
		}
		s.countOften(noon.Add(2 * logInterval))
		if len(lines) != 0 || len(s.logLimit.kinds) != 0 {
			t.Errorf("%s: quiet for a while, and %d kinds are left", tt.name, len(s.logLimit.kinds))
		}
	}
}

// Made-up clients cannot fill the memory with kinds of log lines.
func TestOftenIsBounded(t *testing.T) {
	var o logLimiter
	written := 0
	for n := range uint32(2 * maxKinds) {
		if o.admit(kind{msg: "in use", since: noon}, address(n).String()) {
			written++
		}
	}
	if written != maxKinds || len(o.kinds) != maxKinds {
		t.Errorf("%d written, %d kept", written, len(o.kinds))
	}
}

// A DISCOVER of DiscoverServers, of this or another Pando, is answered. It costs no probe (there is no prober here), no
// reservation and no record.
func TestLookReservesNothing(t *testing.T) {
	m := newMemory()
	s := &Server{
		Config:   Config{Mode: Own, Subnets: []Subnet{*testSubnet()}},
		Registry: m,
		Now:      func() time.Time { return noon },
	}
	l := testLink()
	packets, err := lookPackets(alice)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packets {
		r, err := Parse(p.ToBytes())
		if err != nil {
			t.Fatal(err)
		}
		out := Answer(r, s.lookView(l, r, false, noon), noon)
		if out.Packet == nil || out.Save != nil {
			t.Fatalf("%+v", out)
		}
		f, id, ok := otherServer(out.Packet.ToBytes())
		if !ok || f.Server != ip4("10.77.0.1") || !testSubnet().inRange(f.Offers) || f.Pando != pandoStarting ||
			id != binary.BigEndian.Uint32(p.TransactionID[:]) {
			t.Errorf("the answer is read as %+v, %v", f, ok)
		}
		l.dhcp = &net.UDPConn{} // sends nothing
		s.handle(t.Context(), l, r, netip.AddrPort{}, false)
	}
	if len(s.offers.byMAC) != 0 || m.saves+m.snapshots+len(m.commits) != 0 {
		t.Errorf("reserved: %+v, records: %+v", s.offers.byMAC, m)
	}
}
