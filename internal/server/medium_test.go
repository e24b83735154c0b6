package server

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/media"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/server/bootmedia"
	"pando/internal/server/boots"
	"pando/internal/trace"
)

// begun requests a boot like a machine that started from a medium.
func (n *node) begun(version fleet.Digest) (api.BeginResponse, *api.Error) {
	n.t.Helper()
	var resp api.BeginResponse
	e := n.post("/v1/node/begin", "", api.BeginRequest{MAC: n.mac, Medium: version, Serial: "S1"}, &resp)
	return resp, e
}

// A machine that starts from a medium gets a token on the same conditions as others, and registers once with it.
func TestBootFromAMedium(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	n := s.node(1)
	if _, e := n.begun(version); e == nil || !strings.Contains(e.Message, "no DHCP exchange") {
		t.Fatalf("begin without DHCP: %v", e)
	}
	n.exchange(netboot.IPXE)
	first, e := n.begun(version)
	if e != nil {
		t.Fatal(e)
	}
	second, e := n.begun(version) // the answer was lost
	if e != nil || second.Boot != first.Boot || second.Token == first.Token {
		t.Fatalf("begin again: %+v after %+v, %v", second, first, e)
	}
	n.wait(30 * time.Second) // it resets, and starts from its medium again
	afterReset := api.BeginRequest{MAC: n.mac, Medium: version, Serial: "S1", Uptime: 10 * time.Second}
	var other api.BeginResponse
	if e := n.post("/v1/node/begin", "", afterReset, &other); e != nil || other.Boot == second.Boot {
		t.Fatalf("begin after a reset: %+v, %v", other, e)
	}
	if p := s.progress(second.Boot); p.State != trace.Failed {
		t.Errorf("the boot before the reset: %+v", p)
	}
	first, second = second, other
	cfg := api.BootConfig{Boot: second.Boot, Token: first.Token, MAC: n.mac}
	if e := n.post("/v1/node/hello", "", registrationOf(cfg), nil); e == nil || e.Code != api.Unauthorized {
		t.Errorf("hello with the token before: %v", e)
	}
	cfg.Token, cfg.ServerKey = second.Token, api.KeyText(s.keys.ServerPublic())
	if a := checkAssignment(t, cfg, n.register(cfg)); a.Version != version || a.Boot != second.Boot {
		t.Errorf("assignment %+v", a)
	}
	third, e := n.begun(version)
	if e != nil || third.Boot == second.Boot {
		t.Errorf("begin after hello is the same boot: %+v, %v", third, e)
	}
	n.wait(boots.ExchangeTime + time.Second)
	if _, e := n.begun(version); e == nil {
		t.Error("begin long after DHCP")
	}
}

func TestMediumWithAnotherKernel(t *testing.T) {
	s := startSite(t)
	_, old := s.addImage()
	m, version := s.addImage(func(m *image.Manifest) { m.Kernel.Release, m.Kernel.Object = "6.12", m.Root.Index })
	n := s.node(1)
	n.exchange(netboot.IPXE)
	if _, e := n.begun(old); e == nil || !strings.Contains(e.Message, "another") ||
		!strings.Contains(e.Hint, "pando media create") {
		t.Errorf("kernel %s, begin with the medium of before: %v", m.Kernel.Release, e)
	}
	if _, e := n.begun(version); e != nil {
		t.Errorf("begin: %v", e)
	}
}

func TestMediumOfAnUnknownMachine(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	s.policy(fleet.Approve)
	n := s.node(1)
	n.exchange(netboot.IPXE)
	if _, e := n.begun(version); e == nil || !strings.Contains(e.Hint, "pando node adopt") {
		t.Errorf("begin of a machine that nobody adopted: %v", e)
	}
}

// The API returns all files of a medium, and its kernel+initrd contain no token.
func TestMediumIsMade(t *testing.T) {
	s := startSite(t)
	m, version := s.addImage()
	for _, name := range []string{"ipxe.lkrn", "ipxe.efi"} {
		if err := os.WriteFile(filepath.Join(s.cfg.BootFiles, name), bytes.Repeat([]byte(name), 1000),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	const size = 300 << 20
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	defer c.Close()
	stream, err := c.CreateMedium(
		t.Context(),
		api.MediumCreate{Select: "@default", Size: size, Control: []string{"https://10.0.0.1:8443"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	f, err := os.Create(filepath.Join(t.TempDir(), "medium"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := media.Carry(f, size, stream); err != nil {
		t.Fatal(err)
	}
	loader := make([]byte, media.SlotAt(0))
	if _, err := f.ReadAt(loader, 0); err != nil {
		t.Fatal(err)
	}
	// With these arguments the script knows that a medium started iPXE, which then must not ask for ever.
	for mark, asked := range map[string]string{"set medium 1 '&&' autoboot": "isset ${medium} && exit 1",
		"LEAVE   IPX": "file:/pando/leave.ipx"} {
		if !bytes.Contains(loader, []byte(mark)) ||
			!bytes.Contains(netboot.Chain("http://10.0.0.1:8480"), []byte(asked)) {
			t.Errorf(
				"the medium has %q, and scripts ask %q: %v, %v",
				mark,
				asked,
				bytes.Contains(loader, []byte(mark)),
				bytes.Contains(netboot.Chain("http://10.0.0.1:8480"), []byte(asked)),
			)
		}
	}
	slot := make([]byte, 1<<20)
	if _, err := f.ReadAt(slot, media.SlotAt(0)); err != nil {
		t.Fatal(err)
	}
	if h := media.ParseHeader(slot); h.Sequence != 1 || !strings.Contains(string(slot[:4096]), `set k_args="quiet"`) {
		t.Errorf("slot begins with %q", slot[:400])
	}
	rest := slot[4096+(m.Kernel.Size+511)/512*512:]
	if cfg := trust(t, rest); cfg.Medium != version || cfg.Token != "" || cfg.Boot != "" ||
		cfg.Control[0] != "https://10.0.0.1:8443" {
		t.Errorf("boot.json: %+v", cfg)
	}
	for _, bad := range []api.MediumCreate{{Select: "@default", Size: 1 << 20}, {Select: "@nobody", Size: size},
		{Select: "pc9", Size: size}} {
		if _, err := c.CreateMedium(t.Context(), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// A running node's medium is updated once, and left alone then.
func TestMediumOfARunningNode(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	headers := func() (slots []api.MediumSlot) {
		for i := range media.Slots {
			b := make([]byte, media.Sector)
			_, _ = disk.ReadAt(b, media.SlotAt(i))
			h := media.ParseHeader(b)
			slots = append(slots, api.MediumSlot{Sequence: h.Sequence, Digest: h.Digest})
		}
		return slots
	}
	renew := func(boot fleet.BootID, session string) (int, []byte) {
		return n.postRaw("/v1/node/medium", session, api.NodeMedium{Boot: boot, Slots: headers()})
	}
	for turn, want := range []int{http.StatusOK, http.StatusNoContent} {
		status, body := renew(cfg.Boot, session)
		if status != want {
			t.Fatalf("turn %d: status %d, want %d: %s", turn, status, want, body)
		}
		if status == http.StatusOK {
			if _, err := media.Carry(disk, media.MinSize, bytes.NewReader(body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if h := headers(); h[0].Sequence != 1 || h[1].Sequence != 0 {
		t.Errorf("slots after the first time: %+v", h)
	}
	s.update(func(tx *registry.Tx) error { // the node's next boots get other arguments
		g, err := tx.Group(fleet.DefaultGroup)
		g.KernelArgs = []string{"debug"}
		return errors.Join(err, tx.PutGroup(g))
	})
	if status, body := renew(cfg.Boot, session); status != http.StatusOK {
		t.Errorf("with other arguments: status %d", status)
	} else if _, err := media.Carry(disk, media.MinSize, bytes.NewReader(body)); err != nil ||
		headers()[1].Sequence != 2 {
		t.Errorf("with other arguments: %+v, %v", headers(), err)
	}
	// The server has no iPXE. A node that wants to turn a disk into a medium gets that error before the first byte.
	if e := n.post("/v1/node/medium", session, api.NodeMedium{Boot: cfg.Boot, Size: media.MinSize}, nil); e == nil ||
		e.Hint != bootmedia.NeedsGRUB {
		t.Errorf("a whole medium, without what it takes: %+v", e)
	}
	for _, bad := range []string{"", "Bearer nobody"} {
		if status, _ := renew(cfg.Boot, bad); status != http.StatusUnauthorized {
			t.Errorf("session %q: status %d", bad, status)
		}
	}
}

// All nodes of a storm request their medium in the same minute. A few are sent kernel+initrd at a time, and the others
// must come again. A node that is up to date does not wait, and every slot is released.
func TestMediaAreSentToAFewAtATime(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	ask := func(slots ...api.MediumSlot) (int, []byte) {
		return n.postRaw("/v1/node/medium", session, api.NodeMedium{Boot: cfg.Boot, Slots: slots})
	}
	var first media.Header
	for range bootmedia.MostSent + 1 {
		status, body := ask()
		if status != http.StatusOK {
			t.Fatalf("status %d: %s", status, body)
		}
		first = media.ParseHeader(body[bytes.Index(body, []byte("# Pando K")):])
	}
	for range bootmedia.MostSent {
		if err := s.media.Sending.Begin(); err != nil {
			t.Fatal(err)
		}
	}
	if status, body := ask(); status != http.StatusServiceUnavailable {
		t.Errorf("while %d are sent K: status %d: %.80q", bootmedia.MostSent, status, body)
	}
	if e := n.post("/v1/node/medium", session, api.NodeMedium{Boot: cfg.Boot, Size: media.MinSize}, nil); e == nil ||
		e.Code != api.Unavailable ||
		e.Hint == "" {
		t.Errorf("a whole medium, meanwhile: %+v", e)
	}
	var refused *api.Error
	if err := s.media.Sending.Begin(); !errors.As(err, &refused) || refused.RetryAfter != bootmedia.RetryLater {
		t.Errorf("one too many is refused with %v: %+v", err, refused)
	}
	s.media.Digests = bootmedia.Digests{} // as after a restart, when all nodes ask
	if status, body := ask(api.MediumSlot{Sequence: first.Sequence,
		Digest: first.Digest}); status != http.StatusNoContent {
		t.Errorf("a medium in step, meanwhile: status %d: %.80q", status, body)
	}
	s.media.Sending.End()
	if status, _ := ask(); status != http.StatusOK {
		t.Errorf("with one place left: status %d", status)
	}
}

// A node that booted without a server reports under a boot ID of its own, with the time when it began.
func TestBootWithoutAServerIsReported(t *testing.T) {
	s := startSite(t)
	_, old := s.addImage()
	_, desired := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"debug"} })
	n := s.node(1)
	n.exchange(netboot.Init)
	var resp api.BeginResponse
	if e := n.post("/v1/node/begin", "", api.BeginRequest{MAC: n.mac, Medium: old, Runs: true, Uptime: 2 * time.Hour},
		&resp); e != nil {
		t.Fatal(e)
	}
	cfg := api.BootConfig{Boot: resp.Boot, Token: resp.Token, MAC: n.mac, ServerKey: api.KeyText(s.keys.ServerPublic())}
	session := "Bearer " + n.register(cfg).Session
	e := n.post("/v1/node/events", session, api.ReportRequest{Boot: resp.Boot, Uptime: 2 * time.Hour,
		Events: []trace.Event{
			{Stage: trace.Register, Kind: trace.End, Offset: time.Minute, Message: "no server answers"},
		}}, nil)
	if e != nil {
		t.Fatal(e)
	}
	b := s.bootsOf(s.nodes()[0].Name)
	if len(b) == 0 {
		t.Fatal("no boot of the node")
	}
	if began := s.now().Sub(b[0].Started); b[0].Version != old || began < 2*time.Hour-time.Minute ||
		began > 2*time.Hour+time.Minute {
		t.Errorf("boot %+v, began %s ago; desired is %s", b[0], began, desired.Short())
	}
}
