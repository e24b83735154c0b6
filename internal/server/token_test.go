package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/server/boots"
	"pando/internal/trace"
)

// refusedTo requests an initramfs and fails unless it is refused.
func (n *node) refusedTo(path string, status int, text string) {
	n.t.Helper()
	got, b := n.get(path)
	if got != status || !strings.Contains(string(b), text) {
		n.t.Errorf("GET %s: status %d, %q; want %d and %q", path, got, b, status, text)
	}
}

func TestTokenIsUsedOnce(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	n.register(cfg)
	e := n.post("/v1/node/hello", "", registrationOf(cfg), nil)
	if e == nil || e.Code != api.Unauthorized || !strings.Contains(e.Message, "already used") {
		t.Errorf("second hello: %v", e)
	}
	if p := s.progress(cfg.Boot); p.State != trace.Failed || !strings.Contains(p.Failure, "token already used") {
		t.Errorf("the timeline does not tell: %+v", p)
	}
	n.refusedTo("/boot/"+string(cfg.Boot)+"/initramfs", 409, "has begun")
}

// TestRegistrationWhoseReplyWasLost: a node repeats a registration with the same nonce.
func TestRegistrationWhoseReplyWasLost(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	req := registrationOf(n.load())
	req.Nonce = "of this boot"
	var first, second api.RegisterResponse
	if e := n.post("/v1/node/hello", "", req, &first); e != nil {
		t.Fatal(e)
	}
	if e := n.post("/v1/node/hello", "", req, &second); e != nil {
		t.Fatal("the same hello was refused:", e)
	}
	if first.Session == second.Session {
		t.Error("both got the same session")
	}
	req.Nonce = "of somebody else"
	if e := n.post("/v1/node/hello", "", req, nil); e == nil {
		t.Error("another nonce was taken")
	}
	req.Nonce = "of this boot"
	s.clock.add(boots.RepeatTime)
	if e := n.post("/v1/node/hello", "", req, nil); e == nil {
		t.Error("said again for ever")
	}
}

func TestTokenNeedsAnExchange(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	if script := n.script(); !strings.Contains(script, "no DHCP exchange") || strings.Contains(script, "initrd") {
		t.Errorf("script without an exchange:\n%s", script)
	}
	n.exchange(netboot.IPXE)
	s.clock.add(boots.ExchangeTime + time.Second)
	if script := n.script(); !strings.Contains(script, "no DHCP exchange") {
		t.Errorf("script long after the exchange:\n%s", script)
	}
	n.exchange(netboot.IPXE)
	_, initramfs := urls(t, n.script())
	s.clock.add(boots.KernelTime + time.Second)
	n.refusedTo(initramfs, 409, "no script was sent")
	n.refusedTo("/boot/0123456789abcdef/initramfs", 404, "not found")
}

func TestTokenIsForOneAddress(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	thief := s.nodeAt(1, netip.MustParseAddr("127.0.0.2"))
	n.exchange(netboot.IPXE)
	if script := thief.script(); !strings.Contains(script, "no DHCP exchange") {
		t.Errorf("script for another address:\n%s", script)
	}
	_, initramfs := urls(t, n.script())
	thief.refusedTo(initramfs, 401, "belongs to another address")
	_, b := n.get(initramfs)
	cfg := trust(t, b)
	if e := thief.post("/v1/node/hello", "", registrationOf(cfg), nil); e == nil || e.Code != api.Unauthorized {
		t.Errorf("hello from another address: %v", e)
	}
	if p := s.progress(cfg.Boot); !strings.Contains(p.Failure, "127.0.0.2") {
		t.Errorf("the timeline does not tell: %+v", p)
	}
	n.register(cfg)
}

// TestRegistrationFromInitsOwnAddress: /init's DHCP client may get another address than firmware.
func TestRegistrationFromInitsOwnAddress(t *testing.T) {
	s := startSite(t)
	s.addImage()
	cfg := s.node(1).load()
	moved := s.nodeAt(1, netip.MustParseAddr("127.0.0.3"))
	s.observeDHCP(
		dhcp.Seen{
			MAC:       moved.mac,
			Message:   "REQUEST",
			Requested: moved.addr,
			Client:    netboot.Client{Kind: netboot.Init},
		},
	)
	moved.register(cfg)
}

// TestProxySeesTheAddressByARP: if the server did not see the DHCP request, the ARP table has the address.
func TestProxySeesTheAddressByARP(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	s.booter.Neighbour = func(a netip.Addr) (fleet.MAC, bool) { return n.mac, a == n.addr }
	if strings.Contains(n.script(), "initrd") {
		t.Error("ARP alone is no exchange")
	}
	s.observeDHCP(dhcp.Seen{MAC: n.mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.IPXE}})
	urls(t, n.script())
	other := s.node(2)
	s.observeDHCP(dhcp.Seen{MAC: other.mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.IPXE}})
	if strings.Contains(other.script(), "initrd") {
		t.Error("the address belongs to another MAC")
	}
}

// TestForgedRequest: a DHCP request with a node's MAC proves nothing if the ARP table has another MAC for the sender.
func TestForgedRequest(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n, thief := s.node(1), s.node(2)
	s.booter.Neighbour = func(a netip.Addr) (fleet.MAC, bool) { return thief.mac, a == n.addr }
	n.exchange(netboot.IPXE)
	if strings.Contains(n.script(), "initrd") {
		t.Error("the address is another machine's, and it got the node's boot script")
	}
}

// TestInitramfsAgain: after a broken transfer the initramfs can be loaded again, completely or in part, and is the same
// file. HEAD makes no token.
func TestInitramfsAgain(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	n.exchange(netboot.IPXE)
	_, path := urls(t, n.script())
	req, err := n.http.Head(s.ports.DataURL(local) + path)
	if err != nil {
		t.Fatal(err)
	}
	req.Body.Close()
	_, whole := n.get(path)
	if req.ContentLength != int64(len(whole)) || len(whole)%4 != 0 {
		t.Errorf("HEAD says %d, GET has %d bytes", req.ContentLength, len(whole))
	}
	status, tail := n.get(path, "Range", "bytes=100-")
	if status != 206 || string(tail) != string(whole[100:]) {
		t.Errorf("range: status %d, %d bytes", status, len(tail))
	}
	s.restart()
	status, again := n.get(path, "Range", "bytes=100-")
	if status != 200 || len(again) != len(whole) {
		t.Errorf("range with a token that nobody remembers: status %d, %d bytes", status, len(again))
	}
	if e := n.post("/v1/node/hello", "", registrationOf(trust(t, whole)), nil); e == nil {
		t.Error("the older token is still good")
	}
	n.register(trust(t, again))
}

// TestFailureBeforeRegistration: a failure before the registration is reported with the boot's token, which allows
// nothing else.
func TestFailureBeforeRegistration(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	report := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{
		{Stage: trace.Link, Kind: trace.Fail, Message: "no carrier", Hint: "plug it in"}}}
	if e := n.post("/v1/node/events", "Boot "+cfg.Token, report, nil); e != nil {
		t.Fatal(e)
	}
	if p := s.progress(cfg.Boot); p.State != trace.Failed || p.Failure != "no carrier" {
		t.Errorf("progress: %+v", p)
	}
	for _, auth := range []string{"", "Boot x", "Bearer " + cfg.Token, "Bearer ", "Boot"} {
		if e := n.post("/v1/node/events", auth, report, nil); e == nil || e.Code != api.Unauthorized {
			t.Errorf("authorization %q: %v", auth, e)
		}
	}
	other := s.node(2).load()
	report.Boot = other.Boot
	if e := n.post("/v1/node/events", "Boot "+cfg.Token, report, nil); e == nil {
		t.Error("a token speaks for another boot")
	}
}

// TestMACOfNobody: a request with a MAC that is not a machine's is refused, and gets no boot.
func TestMACOfNobody(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	boot := n.load().Boot
	before := s.eventsOf(boot)
	for range 500 { // a transfer is recorded a moment after the client has all of it
		if slices.Contains(before, "initramfs end") {
			break
		}
		time.Sleep(10 * time.Millisecond)
		before = s.eventsOf(boot)
	}
	unknown := s.nodeAt(9, netip.MustParseAddr("127.0.0.9"))
	for _, mac := range []fleet.MAC{{}, {1, 0, 0x5e, 0, 0, 1}} {
		s.observeDHCP(
			dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.PXE}, Reply: "OFFER"},
		)
		s.observeDHCP(
			dhcp.Seen{MAC: mac, Message: "REQUEST", Client: netboot.Client{Kind: netboot.IPXE}, Requested: local},
		)
		if code, b := unknown.get("/boot/script?mac=" + mac.String() + "&ip=127.0.0.1"); code != http.StatusOK ||
			!strings.Contains(string(b), "not the MAC address of one machine") {
			t.Errorf("script for %s: %d %s", mac, code, b)
		}
		e := unknown.post("/v1/node/begin", "", api.BeginRequest{MAC: mac}, nil)
		if e == nil || e.Code != api.BadRequest {
			t.Errorf("begin of %s: %v", mac, e)
		}
	}
	if after := s.eventsOf(boot); !slices.Equal(before, after) {
		t.Errorf("the boot of another machine has %q, and had %q", after, before)
	}
}
