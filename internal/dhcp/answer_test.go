package dhcp

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

var (
	alice = fleet.MAC{0x52, 0x54, 0, 0, 0, 1}
	bob   = fleet.MAC{0x52, 0x54, 0, 0, 0, 2}
)

// asked builds a request of a plain client through its bytes.
func asked(t *testing.T, mac fleet.MAC, typ dhcpv4.MessageType, mods ...dhcpv4.Modifier) Request {
	t.Helper()
	p, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac[:]), dhcpv4.WithMessageType(typ)}, mods...)...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(p.ToBytes())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func requested(s string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(ip(ip4(s))))
}

func chose(s string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(ip(ip4(s))))
}

func having(s string) dhcpv4.Modifier { return dhcpv4.WithClientIP(ip(ip4(s))) }

func lease(addr string, mac fleet.MAC, left time.Duration) fleet.Lease {
	return fleet.Lease{Addr: ip4(addr), MAC: mac, Expires: noon.Add(left)}
}

func static(addr string, mac fleet.MAC) fleet.Lease {
	return fleet.Lease{Addr: ip4(addr), MAC: mac, Static: true, Host: "pc001"}
}

func bad(addr string, mac fleet.MAC, left time.Duration) fleet.Lease {
	return fleet.Lease{Addr: ip4(addr), MAC: mac, Bad: true, Expires: noon.Add(left)}
}

// TestStates walks through the states of a client (RFC 2131 sections 4.3.1 to 4.3.5).
func TestStates(t *testing.T) {
	const request, discover = dhcpv4.MessageTypeRequest, dhcpv4.MessageTypeDiscover
	tests := []struct {
		name  string
		typ   dhcpv4.MessageType
		mods  []dhcpv4.Modifier
		lease fleet.Lease // of the MAC
		hold  fleet.Lease // of the address
		offer string
		reply string
		addr  string
		why   string
	}{
		{name: "discover", typ: discover, offer: "10.77.0.120", reply: "OFFER", addr: "10.77.0.120"},
		{name: "discover, nothing free", typ: discover, why: "no free"},

		{
			name:  "selecting what was offered",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			offer: "10.77.0.120",
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "selecting after a restart",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "selecting another's",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			hold:  lease("10.77.0.120", bob, time.Hour),
			reply: "NAK",
			why:   "not offered",
		},
		{
			name:  "selecting another's that ran out",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			hold:  lease("10.77.0.120", bob, -time.Hour),
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "selecting another's fixed one",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			hold:  static("10.77.0.120", bob),
			reply: "NAK",
			why:   "not offered",
		},
		{
			name:  "selecting a bad one",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			hold:  bad("10.77.0.120", alice, time.Hour),
			reply: "NAK",
			why:   "not offered",
		},
		{
			name:  "selecting outside the range",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.50"), chose("10.77.0.1")},
			reply: "NAK",
			why:   "not offered",
		},
		{
			name:  "selecting its fixed one outside the range",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.50"), chose("10.77.0.1")},
			lease: static("10.77.0.50", alice),
			hold:  static("10.77.0.50", alice),
			reply: "ACK",
			addr:  "10.77.0.50",
		},
		{
			name:  "selecting our own address",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.1"), chose("10.77.0.1")},
			reply: "NAK",
			why:   "not offered",
		},
		{
			name:  "selecting nothing",
			typ:   request,
			mods:  []dhcpv4.Modifier{chose("10.77.0.1")},
			reply: "NAK",
			why:   "names no address",
		},
		{
			name:  "selecting another server",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.2")},
			offer: "10.77.0.120",
			why:   "chose the server 10.77.0.2",
		},

		{
			name:  "init-reboot",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120")},
			lease: lease("10.77.0.120", alice, time.Hour),
			hold:  lease("10.77.0.120", alice, time.Hour),
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "init-reboot after the lease ran out",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120")},
			lease: lease("10.77.0.120", alice, -time.Hour),
			hold:  lease("10.77.0.120", alice, -time.Hour),
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "init-reboot from another network",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("192.168.1.5")},
			reply: "NAK",
			why:   "not an address of 10.77.0.0/24",
		},
		{
			name:  "init-reboot with another's",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120")},
			hold:  lease("10.77.0.120", bob, time.Hour),
			reply: "NAK",
			why:   "not this client's",
		},
		{
			name:  "init-reboot with its old one",
			typ:   request,
			mods:  []dhcpv4.Modifier{requested("10.77.0.120")},
			lease: static("10.77.0.50", alice),
			hold:  lease("10.77.0.120", alice, time.Hour),
			reply: "NAK",
			why:   "not this client's",
		},
		{
			name: "init-reboot unknown",
			typ:  request,
			mods: []dhcpv4.Modifier{requested("10.77.0.120")},
			why:  "no record",
		},

		{
			name:  "renewing",
			typ:   request,
			mods:  []dhcpv4.Modifier{having("10.77.0.120")},
			lease: lease("10.77.0.120", alice, time.Hour),
			hold:  lease("10.77.0.120", alice, time.Hour),
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "renewing after its node got a fixed one",
			typ:   request,
			mods:  []dhcpv4.Modifier{having("10.77.0.120")},
			lease: static("10.77.0.50", alice),
			hold:  lease("10.77.0.120", alice, time.Hour),
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "renewing what the records lost",
			typ:   request,
			mods:  []dhcpv4.Modifier{having("10.77.0.120")},
			reply: "ACK",
			addr:  "10.77.0.120",
		},
		{
			name:  "renewing another's",
			typ:   request,
			mods:  []dhcpv4.Modifier{having("10.77.0.120")},
			hold:  lease("10.77.0.120", bob, time.Hour),
			reply: "NAK",
			why:   "another client's",
		},
		{
			name: "rebinding another server's",
			typ:  request,
			mods: []dhcpv4.Modifier{having("10.77.0.50")},
			why:  "no record",
		},
		{
			name: "rebinding in another network",
			typ:  request,
			mods: []dhcpv4.Modifier{having("192.168.1.5")},
			why:  "no record",
		},
		{name: "request of nothing", typ: request, why: "names no address"},

		{name: "inform", typ: dhcpv4.MessageTypeInform, mods: []dhcpv4.Modifier{having("10.77.0.9")}, reply: "ACK"},
		{
			name: "release",
			typ:  dhcpv4.MessageTypeRelease,
			mods: []dhcpv4.Modifier{having("10.77.0.120"), chose("10.77.0.1")},
			hold: lease("10.77.0.120", alice, time.Hour),
		},
		{
			name: "release of another's",
			typ:  dhcpv4.MessageTypeRelease,
			mods: []dhcpv4.Modifier{having("10.77.0.120"), chose("10.77.0.1")},
			hold: lease("10.77.0.120", bob, time.Hour),
		},
		{
			name: "decline of another's",
			typ:  dhcpv4.MessageTypeDecline,
			mods: []dhcpv4.Modifier{requested("10.77.0.120"), chose("10.77.0.1")},
			hold: lease("10.77.0.120", bob, time.Hour),
			why:  "not this client's",
		},
	}
	for _, tt := range tests {
		v := testView()
		v.Lease, v.Holder, v.NoOffer = tt.lease, tt.hold, "no free address"
		if tt.offer != "" {
			v.Offer = ip4(tt.offer)
		}
		out := Answer(asked(t, alice, tt.typ, tt.mods...), v, noon)
		var want netip.Addr
		if tt.addr != "" {
			want = ip4(tt.addr)
		}
		if out.Seen.Reply != tt.reply || out.Seen.Addr != want || !strings.Contains(out.Seen.Reason, tt.why) ||
			(tt.why == "") != (out.Seen.Reason == "") {
			t.Errorf(
				"%s: %s %s (%s), want %s %s (%s)",
				tt.name,
				out.Seen.Reply,
				out.Seen.Addr,
				out.Seen.Reason,
				tt.reply,
				want,
				tt.why,
			)
		}
		if wantSave := tt.reply == "ACK" && tt.addr != "" || tt.name == "release"; (out.Save != nil) != wantSave {
			t.Errorf("%s: save %+v", tt.name, out.Save)
		}
	}
}

func TestWhatIsRecorded(t *testing.T) {
	v := testView()
	v.Lease, v.Holder = static("10.77.0.50", alice), static("10.77.0.50", alice)
	out := Answer(asked(t, alice, dhcpv4.MessageTypeRequest, requested("10.77.0.50"), chose("10.77.0.1")), v, noon)
	if out.Save == nil || !out.Save.Static || out.Save.Host != "pc001" || !out.Save.Expires.Equal(noon.Add(time.Hour)) {
		t.Errorf("fixed address recorded as %+v", out.Save)
	}
	if got := out.Packet.HostName(); got != "pc001" {
		t.Errorf("host name %q", got)
	}

	v.Lease, v.Holder = lease("10.77.0.120", alice, time.Hour), lease("10.77.0.120", alice, time.Hour)
	out = Answer(asked(t, alice, dhcpv4.MessageTypeRelease, having("10.77.0.120")), v, noon)
	if out.Save == nil || !out.Save.Expires.Equal(noon) || out.Save.MAC != alice {
		t.Errorf("released address recorded as %+v", out.Save)
	}

	// Nobody else answers there: the address stays good, and this client alone is not offered it.
	declined := asked(t, alice, dhcpv4.MessageTypeDecline, requested("10.77.0.120"), chose("10.77.0.1"))
	out = Answer(declined, v, noon)
	if out.Save != nil || out.Alert != "" || !out.Free || out.Avoid != ip4("10.77.0.120") {
		t.Errorf("declined address that nobody uses: %+v", out)
	}
	v.InUse = true
	out = Answer(declined, v, noon)
	if out.Save == nil || !out.Save.Bad || !out.Save.Expires.Equal(noon.Add(conflictFor)) || out.Alert == "" ||
		!out.Free {
		t.Errorf("declined address: %+v", out)
	}
	v.Lease, v.Holder = static("10.77.0.50", alice), static("10.77.0.50", alice)
	out = Answer(asked(t, alice, dhcpv4.MessageTypeDecline, requested("10.77.0.50"), chose("10.77.0.1")), v, noon)
	if out.Save != nil || out.Alert == "" {
		t.Errorf("declined fixed address: %+v", out)
	}
}

// While the server has stopped giving addresses, it renews only known clients, and still sends boot files.
func TestStopped(t *testing.T) {
	v := testView()
	v.Mode, v.StoppedFor = Proxy, ip4("10.77.0.2")
	v.Lease, v.Holder = lease("10.77.0.120", alice, time.Hour), lease("10.77.0.120", alice, time.Hour)
	if out := Answer(asked(t, alice, dhcpv4.MessageTypeRequest, having("10.77.0.120")), v,
		noon); out.Seen.Reply != "ACK" {
		t.Errorf("renewing: %+v", out.Seen)
	}
	if out := Answer(asked(t, bob, dhcpv4.MessageTypeRequest, having("10.77.0.120")), v, noon); out.Packet != nil {
		t.Errorf("another's renewing: %+v", out.Seen)
	}
	v.Offer = ip4("10.77.0.120")
	if out := Answer(asked(t, alice, dhcpv4.MessageTypeDiscover), v, noon); out.Packet != nil {
		t.Errorf("discover: %+v", out.Seen)
	}
	pxe := dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00000:UNDI:002001"))
	if out := Answer(asked(t, alice, dhcpv4.MessageTypeDiscover, pxe), v, noon); out.Seen.BootFile != "undionly.kpxe" ||
		out.Seen.Addr.IsValid() {
		t.Errorf("discover of firmware: %+v", out.Seen)
	}
}

func TestRelayedReplyCarriesTheRelaysOption(t *testing.T) {
	v := testView()
	v.Holder = lease("10.77.0.120", bob, time.Hour)
	info := dhcpv4.WithOption(
		dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("port 7"))),
	)
	id := dhcpv4.WithOption(dhcpv4.OptClientIdentifier([]byte{0, 1, 2}))
	out := Answer(
		asked(
			t,
			alice,
			dhcpv4.MessageTypeRequest,
			having("10.77.0.120"),
			dhcpv4.WithRelay(ip(ip4("10.77.0.254"))),
			info,
			id,
		),
		v,
		noon,
	)
	p := out.Packet
	if p == nil || out.Seen.Reply != "NAK" || !p.IsBroadcast() || addr(p.GatewayIPAddr) != ip4("10.77.0.254") ||
		p.RelayAgentInfo() == nil ||
		string(p.Options.Get(dhcpv4.OptionClientIdentifier)) != "\x00\x01\x02" {
		t.Errorf("reply %s", p.Summary())
	}
}

// Firmware without a loader still gets an address from a server, and no answer from a proxy. The reason is recorded.
func TestUnknownArchitecture(t *testing.T) {
	v := testView()
	v.Offer = ip4("10.77.0.120")
	mods := []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00012")),
		dhcpv4.WithOption(dhcpv4.OptClientArch(12))}
	out := Answer(asked(t, alice, dhcpv4.MessageTypeDiscover, mods...), v, noon)
	if out.Seen.Reply != "OFFER" || out.Seen.BootFile != "" || !strings.Contains(out.Seen.Reason, "architecture 12") {
		t.Errorf("as server: %+v", out.Seen)
	}
	v.Mode = Proxy
	out = Answer(asked(t, alice, dhcpv4.MessageTypeDiscover, mods...), v, noon)
	if out.Packet != nil || !strings.Contains(out.Seen.Reason, "architecture 12") {
		t.Errorf("as proxy: %+v", out.Seen)
	}
}

func TestHasAddress(t *testing.T) {
	a, b := ip4("10.0.0.1"), ip4("10.0.0.2")
	tests := []struct {
		in   Seen
		want netip.Addr
	}{
		{Seen{Message: "REQUEST", Reply: "ACK", Addr: a, Requested: b}, a},
		{Seen{Message: "REQUEST", Requested: b}, b},
		{Seen{Message: "REQUEST", Requested: b, Own: true}, netip.Addr{}},
		{Seen{Message: "REQUEST", Reply: "NAK", Requested: b}, netip.Addr{}},
		{Seen{Message: "DISCOVER", Reply: "OFFER", Addr: a, Requested: b}, netip.Addr{}},
	}
	for _, tt := range tests {
		if got := tt.in.HasAddress(); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.in, got, tt.want)
		}
	}
}

// TestTakenAddressesAreNobodys: the server's own address, a router's and a name server's are in the range, and a client
// that asks for one does not get it, whatever the records say.
func TestTakenAddressesAreNobodys(t *testing.T) {
	at := ip4("10.77.0.120")
	for name, mods := range map[string][]dhcpv4.Modifier{
		"selecting":   {requested("10.77.0.120"), chose("10.77.0.1")},
		"init-reboot": {requested("10.77.0.120")},
		"renewing":    {having("10.77.0.120")},
	} {
		for _, hold := range []fleet.Lease{{}, lease("10.77.0.120", alice, time.Hour)} {
			v := View{Mode: Own, Server: ip4("10.77.0.1"), Subnet: testSubnet(), Lease: hold, Holder: hold, Taken: true}
			out := Answer(asked(t, alice, dhcpv4.MessageTypeRequest, mods...), v, noon)
			if out.Save != nil || out.Packet != nil && out.Packet.MessageType() == dhcpv4.MessageTypeAck {
				t.Errorf("%s, with record %v: %s is given away", name, hold.Addr, at)
			}
		}
	}
	s := *testSubnet()
	s.Routers, s.DNS = []netip.Addr{ip4("10.77.0.130")}, []netip.Addr{ip4("10.77.0.131")}
	l := &link{addrs: []netip.Prefix{netip.MustParsePrefix("10.77.0.1/24"), netip.MustParsePrefix("10.77.0.120/24")},
		read: time.Now()}
	for _, addr := range []string{"10.77.0.1", "10.77.0.120", "10.77.0.130", "10.77.0.131"} {
		p := new(Server).allocator(l, Request{}, s)
		if !p.avoid(ip4(addr)) {
			t.Errorf("%s is offered", addr)
		}
		var v snapshot
		srv := &Server{Config: Config{Mode: Proxy, Subnets: []Subnet{s}}}
		r := asked(t, alice, dhcpv4.MessageTypeRequest, requested(addr))
		if err := srv.lookUp(new(memory), l, r, &v, noon); err != nil || !v.Taken {
			t.Errorf("%s is nobody's: %v", addr, err)
		}
	}
}
