package dhcp

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// flooded is a server of a range of 101 addresses, with a clock; replies go nowhere.
type flooded struct {
	*Server
	m    *memory
	l    *link
	now  time.Time
	last Seen
}

func newFlooded(leases ...fleet.Lease) *flooded {
	f := &flooded{m: newMemory(leases...), l: testLink(), now: noon}
	f.m.known = map[fleet.MAC]bool{}
	f.l.dhcp = &net.UDPConn{}
	f.Server = &Server{Config: Config{Mode: Own, NoProbe: true, Subnets: []Subnet{*testSubnet()}}, Registry: f.m,
		Now: func() time.Time { return f.now }, Observe: func(s Seen) { f.last = s }}
	return f
}

// ask sends a request and returns what was answered.
func (f *flooded) ask(t *testing.T, mac fleet.MAC, typ dhcpv4.MessageType, mods ...dhcpv4.Modifier) Seen {
	t.Helper()
	mods = append(mods, dhcpv4.WithRelay(ip(ip4("10.77.0.254"))))
	f.last = Seen{}
	f.handle(t.Context(), f.l, asked(t, mac, typ, mods...), netip.AddrPort{}, false)
	return f.last
}

// boot does the exchange of a client. It returns the zero Addr if the client got no address.
func (f *flooded) boot(t *testing.T, mac fleet.MAC, mods ...dhcpv4.Modifier) netip.Addr {
	t.Helper()
	offer := f.ask(t, mac, dhcpv4.MessageTypeDiscover, mods...)
	if offer.Reply != "OFFER" {
		return netip.Addr{}
	}
	mods = append(mods, requested(offer.Addr.String()), chose("10.77.0.1"))
	if got := f.ask(t, mac, dhcpv4.MessageTypeRequest, mods...); got.Reply == "ACK" {
		return got.Addr
	}
	return netip.Addr{}
}

func (f *flooded) held() (n int) {
	for _, l := range f.m.byAddr {
		if f.now.Before(l.Expires) && !l.Known {
			n++
		}
	}
	return n
}

// nth returns an address of the range.
func nth(n int) string { return address(number(ip4("10.77.0.100")) + uint32(n%101)).String() }

func madeUp(n int) fleet.MAC { return fleet.MAC{2, 0, 0, 9, byte(n >> 8), byte(n)} }

// Made-up MACs get a share of the range, for minutes; a node still finds an address meanwhile.
func TestMadeUpMACs(t *testing.T) {
	gone := fleet.MAC{2, 0, 0, 1, 0, 1}
	last := fleet.Lease{Addr: ip4("10.77.0.150"), MAC: gone, Known: true, Expires: noon.Add(-time.Hour)}
	for name, take := range map[string]func(f *flooded, n int){
		"exchanges": func(f *flooded, n int) { f.boot(t, madeUp(n)) },
		"requests that take what was never offered": func(f *flooded, n int) {
			f.ask(t, madeUp(n), dhcpv4.MessageTypeRequest, requested(nth(n)), chose("10.77.0.1"))
		},
		"renewals of what was never given": func(f *flooded, n int) {
			f.ask(t, madeUp(n), dhcpv4.MessageTypeRequest, having(nth(n)))
		},
	} {
		f := newFlooded(last)
		f.m.known[alice], f.m.known[gone] = true, true
		for round := range 3 {
			for n := range 500 {
				take(f, 1000*round+n)
				f.now = f.now.Add(20 * time.Millisecond)
			}
		}
		if n := f.held(); n == 0 || n > 76 {
			t.Errorf("%s: made-up MACs have %d of 101 addresses", name, n)
		}
		if l := f.m.byAddr[last.Addr]; l.MAC != gone {
			t.Errorf("%s: a node's last address was taken by %s", name, l.MAC)
		}
		if a := f.boot(t, alice); !testSubnet().inRange(a) {
			t.Errorf("%s: a node gets no address: %+v", name, f.last)
		}
		if a := f.boot(t, gone); a != last.Addr {
			t.Errorf("%s: a node gets %s, and had %s: %+v", name, a, last.Addr, f.last)
		}
		f.now = f.now.Add(unknownLeaseTime + time.Second)
		if n := f.held(); n != 0 {
			t.Errorf("%s: %d addresses are held after %s", name, n, unknownLeaseTime)
		}
		if a := f.boot(t, bob); !a.IsValid() {
			t.Errorf("%s: a new machine gets none afterwards: %+v", name, f.last)
		}
	}
}

// Offers that no client takes are dropped in seconds.
func TestOffersCostNothingThatLasts(t *testing.T) {
	f := newFlooded()
	for n := range 500 {
		f.ask(t, madeUp(n), dhcpv4.MessageTypeDiscover)
	}
	if a := f.ask(t, bob, dhcpv4.MessageTypeDiscover); a.Reply != "" {
		t.Errorf("offered beyond the share: %+v", a)
	}
	f.now = f.now.Add(exchangeFor + time.Second)
	if a := f.ask(t, bob, dhcpv4.MessageTypeDiscover); a.Reply != "OFFER" {
		t.Errorf("a new machine is offered none: %+v", a)
	}
	f.sweep(f.now)
	if n := len(f.offers.byMAC); n > 1 {
		t.Errorf("%d offers are left", n)
	}
	if f.m.saves != 0 {
		t.Errorf("%d leases recorded for offers", f.m.saves)
	}
}

// Each port of a switch has its own share of addresses.
func TestPortLimit(t *testing.T) {
	f := newFlooded()
	f.Config.Subnets[0].Prefix = netip.MustParsePrefix("10.77.0.0/16")
	f.Config.Subnets[0].Last = ip4("10.77.9.200")
	port := func(s string) dhcpv4.Modifier {
		return dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte(s))))
	}
	got := 0
	for n := range 200 {
		if f.boot(t, madeUp(n), port("Gi0/7")).IsValid() {
			got++
		}
	}
	if got != portBurst {
		t.Errorf("%d addresses through one port", got)
	}
	if !f.boot(t, bob, port("Gi0/8")).IsValid() {
		t.Errorf("another port: %+v", f.last)
	}
	f.m.known[alice] = true
	if !f.boot(t, alice, port("Gi0/7")).IsValid() {
		t.Errorf("a node behind the port: %+v", f.last)
	}
	for n := range 2 * maxPorts {
		f.ask(t, madeUp(5000+n), dhcpv4.MessageTypeDiscover, port(string(rune(0x100+n))))
		f.now = f.now.Add(time.Second)
	}
	if n := len(f.unknown.ports); n > maxPorts+1 {
		t.Errorf("%d ports are remembered", n)
	}
}

// A client's DECLINE alone makes an address unusable only for that client.
func TestDeclineAlone(t *testing.T) {
	f := newFlooded()
	tried := map[netip.Addr]bool{}
	for range 20 {
		a := f.boot(t, bob)
		f.ask(t, bob, dhcpv4.MessageTypeDecline, requested(a.String()), chose("10.77.0.1"))
		tried[a] = true
	}
	for a, l := range f.m.byAddr {
		if l.Bad {
			t.Errorf("%s is bad", a)
		}
	}
	if len(tried) < 2 {
		t.Errorf("the client is offered what it declined: %v", tried)
	}
	f.m.known[alice] = true
	for a := range tried {
		delete(f.m.byAddr, a)
		if got := f.ask(t, alice, dhcpv4.MessageTypeDiscover, requested(a.String())); got.Addr != a {
			t.Errorf("%s is offered to nobody: %+v", a, got)
		}
		f.offers.free(alice)
	}
}

// A DECLINE counts for all clients if ARP confirms it.
func TestDeclineIsProbed(t *testing.T) {
	t.Parallel()
	net := newNetns(t, "10.77.0.1/24")
	s := net.serve(ownSpec())
	c := net.client(aliceMAC)
	a, out := c.udhcpc()
	if !a.IsValid() {
		t.Fatal(out)
	}
	decline := asked(t, alice, dhcpv4.MessageTypeDecline, requested(a.String()), chose("10.77.0.1")).packet
	c.forge(t, decline, ServerPort)
	if seen := s.seen("DECLINE", ""); !strings.Contains(seen.Reason, "nobody else answers") {
		t.Errorf("%+v", seen)
	}
	net.client(bobMAC).run("ip", "addr", "add", a.String()+"/24", "dev", "eth0")
	c.forge(t, decline, ServerPort)
	s.logged(`"ERROR"`, "found somebody else using "+a.String())
}

// Log and events warn before a range is full.
func TestRangeComesToItsEnd(t *testing.T) {
	f := newFlooded()
	var log bytes.Buffer
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	var warned []string
	f.Warn = func(message, _ string) { warned = append(warned, message) }
	f.checkRoom(context.Background(), f.l, f.now)
	if log.Len() > 0 {
		t.Error("told of an empty range")
	}
	for n := range 92 {
		a := address(number(ip4("10.77.0.100")) + uint32(n))
		f.m.byAddr[a] = fleet.Lease{Addr: a, MAC: madeUp(n), Known: true, Expires: f.now.Add(time.Hour)}
	}
	f.now = f.now.Add(time.Minute)
	f.checkRoom(context.Background(), f.l, f.now)
	f.checkRoom(context.Background(), f.l, f.now)
	if want := []string{"9 of the 101 addresses of 10.77.0.100-10.77.0.200 are free"}; !slices.Equal(warned, want) {
		t.Errorf("warned %q, want %q", warned, want)
	}
	if !strings.Contains(log.String(), "less than a tenth") || !strings.Contains(log.String(), "free=9") {
		t.Errorf("not told: %s", log.String())
	}
}
