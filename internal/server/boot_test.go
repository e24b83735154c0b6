package server

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/trace"
)

// TestBoot plays one node from its first packet to its default target.
func TestBoot(t *testing.T) {
	s := startSite(t)
	m, version := s.addImage()
	n := s.node(1)
	cfg := n.load()

	if want := s.ports.ControlURL(local); cfg.Format != 1 || cfg.MAC != n.mac || len(cfg.Control) != 1 ||
		cfg.Control[0] != want {
		t.Errorf("boot.json: %+v", cfg)
	}
	resp := n.register(cfg)
	a := checkAssignment(t, cfg, resp)
	if a.Node != "node001" || a.Group != "default" || a.Version != version || a.Image != "lab" || !a.LockRoot ||
		a.Boot != cfg.Boot {
		t.Errorf("assignment: %+v", a)
	}
	if len(a.Servers) != 1 || a.Servers[0] != s.ports.DataURL(local) {
		t.Errorf("servers: %v", a.Servers)
	}
	checkFiles(t, s, a.Files)
	checkManifest(t, n, cfg, version, m)

	n.clock.add(2 * time.Second)
	report := api.ReportRequest{
		Boot:   cfg.Boot,
		Uptime: 2 * time.Second,
		Status: &api.NodeStatus{Version: version, Reads: 7},
		Events: []trace.Event{
			{Stage: trace.Init, Kind: trace.End, Attrs: map[string]string{trace.AttrKernel: "4s"}},
			{Stage: trace.Register, Kind: trace.End, Offset: time.Second},
			{Stage: trace.Booted, Kind: trace.End, Offset: 2 * time.Second, Bytes: map[string]int64{"server": 100}},
			{Stage: "desktop", Kind: trace.End, Offset: 2 * time.Second},
		},
	}
	if e := n.post("/v1/node/events", "Bearer "+resp.Session, report, nil); e != nil {
		t.Fatal(e, e.Hint)
	}
	want := []string{
		"dhcp begin",
		"dhcp end",
		"script begin",
		"script end",
		"kernel begin",
		"kernel end",
		"initramfs begin",
		"initramfs end",
		"init end",
		"hello end",
		"booted end",
		"desktop end",
	}
	if got := s.eventsOf(cfg.Boot); !slices.Equal(got, want) {
		t.Errorf("events:\n got %v\nwant %v", got, want)
	}
	p := s.progress(cfg.Boot)
	if p.State != trace.Up || p.Stage != trace.Booted || p.Bytes["server"] != 100 ||
		p.Bytes[trace.SourceK] < m.Kernel.Size {
		t.Errorf("progress: %+v", p)
	}
	if got, want := p.Elapsed(), 7600*time.Millisecond; got != want {
		t.Errorf("elapsed %s, want %s", got, want)
	}
}

// TestRebootAfter: the group's time overrides the server's. A negative time (never) reaches the node unchanged.
func TestRebootAfter(t *testing.T) {
	s := startSite(t, func(c *Config) { c.RebootAfter = -time.Second })
	s.addImage()
	for i, c := range []struct{ group, want time.Duration }{
		{0, -time.Second}, {time.Minute, time.Minute}, {-time.Hour, -time.Hour},
	} {
		s.update(func(tx *registry.Tx) error {
			g, err := tx.Group(fleet.DefaultGroup)
			g.RebootAfter = &c.group
			return errors.Join(err, tx.PutGroup(g))
		})
		n := s.node(byte(i + 1))
		cfg := n.load()
		a := checkAssignment(t, cfg, n.register(cfg))
		if cfg.RebootAfter != c.want || a.RebootAfter != c.want {
			t.Errorf("group %s: boot.json %s, assignment %s, want %s", c.group, cfg.RebootAfter, a.RebootAfter, c.want)
		}
	}
}

func checkAssignment(t testing.TB, cfg api.BootConfig, resp api.RegisterResponse) fleet.Assignment {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(cfg.ServerKey)
	if err != nil || !ed25519.Verify(key, append([]byte(api.AssignmentContext), resp.Assignment...), resp.Signature) {
		t.Fatal("assignment is not signed by the server's key", err)
	}
	var a fleet.Assignment
	if err := json.Unmarshal(resp.Assignment, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func checkFiles(t *testing.T, s *site, files []fleet.File) {
	t.Helper()
	have := map[string]string{}
	for _, f := range files {
		have[f.Path] = string(f.Data)
	}
	private, _ := s.keys.HostKey("node001")
	for path, want := range map[string]string{
		"/etc/hostname":                 "node001\n",
		"/etc/machine-id":               s.keys.MachineID("node001") + "\n",
		"/root/.ssh/authorized_keys":    "ssh-ed25519 AAAA me@here\n",
		"/etc/ssh/ssh_host_ed25519_key": string(private),
	} {
		if have[path] != want {
			t.Errorf("%s is %q, want %q", path, have[path], want)
		}
	}
}

// checkManifest follows the chain of trust as a node does.
func checkManifest(t *testing.T, n *node, cfg api.BootConfig, version fleet.Digest, m image.Manifest) {
	t.Helper()
	hexName := strings.TrimPrefix(string(version), "sha256:")
	_, manifest := n.get("/m/" + hexName)
	_, signature := n.get("/m/" + hexName + ".minisig")
	if image.Version(manifest) != version {
		t.Error("manifest is not that of the version")
	}
	for _, accepted := range []string{"identity", "gzip"} { // a client that sets the header unpacks the body itself
		if _, got := n.get("/m/"+hexName, "Accept-Encoding", accepted); bytes.Equal(
			got,
			manifest,
		) != (accepted == "identity") {
			t.Errorf("asked for %s, it is sent in %d of %d bytes", accepted, len(got), len(manifest))
		}
	}
	if _, err := image.Verify(manifest, signature, cfg.TrustKeys...); err != nil {
		t.Error(err)
	}
	_, index := n.get("/o/" + m.Root.Index.Name())
	if sum := sha256.Sum256(index); hex.EncodeToString(sum[:]) != m.Root.Index.Name() {
		t.Error("object is not what its name says")
	}
}

// TestSecondBoot: the next DISCOVER after a boot that reached /init begins a new boot of the same node.
func TestSecondBoot(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	first := n.load()
	old := n.register(first)
	n.clock.add(time.Hour)
	second := n.load()
	if first.Boot == second.Boot {
		t.Fatal("a new DISCOVER did not begin a new boot")
	}
	n.register(second)
	e := n.post("/v1/node/events", "Bearer "+old.Session, api.ReportRequest{Boot: first.Boot}, nil)
	if e == nil || e.Code != api.Unauthorized {
		t.Errorf("the old boot's session still speaks: %v", e)
	}
	nodes := s.nodes()
	if len(nodes) != 1 || nodes[0].SerialSeen != "S1" || nodes[0].Serial != "" || nodes[0].UUID == "" {
		t.Errorf("nodes: %+v", nodes)
	}
}

func (s *site) nodes() (nodes []fleet.Node) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) (err error) {
		nodes, err = tx.Nodes()
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// TestRestartInMidBoot restarts the server between every two steps of a boot, and the boot goes on.
func TestRestartInMidBoot(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	n.load() // a first boot, so that the node is known
	n.clock.add(time.Hour)
	n.exchange("pxe")
	s.restart()
	kernel, initramfs := urls(t, n.script())
	s.restart()
	n.get(kernel)
	_, b := n.get(initramfs)
	cfg := trust(t, b)
	s.restart()
	resp := n.register(cfg)
	s.restart()
	if e := n.post("/v1/node/events", "Bearer "+resp.Session,
		api.ReportRequest{Boot: cfg.Boot, Events: []trace.Event{{Stage: trace.Booted, Kind: trace.End}}},
		nil); e != nil {
		t.Fatal(e)
	}
	if p := s.progress(cfg.Boot); p.State != trace.Up {
		t.Errorf("progress after restarts: %+v", p)
	}
	if got := s.eventsOf(cfg.Boot); !slices.Contains(got, "kernel end") || !slices.Contains(got, "initramfs end") {
		t.Errorf("events after restarts: %v", got)
	}
	if e := n.post("/v1/node/hello", "", registrationOf(cfg), nil); e == nil {
		t.Error("a used token was good again after a restart")
	}
}
