package server

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/trace"
)

// withSystemd adds a version whose package list contains systemd.
func (s *site) withSystemd(version string, change ...func(*image.Manifest)) fleet.Digest {
	s.t.Helper()
	_, d := s.addImage(change...)
	kept, err := s.store.GetVersion(d)
	if err != nil {
		s.t.Fatal(err)
	}
	p := image.Provenance{
		Format:   1,
		Packages: []image.Package{{Name: "adduser", Version: "3"}, {Name: "systemd", Version: version}},
	}
	if kept.Provenance, err = p.Encode(); err == nil {
		_, err = s.store.PutVersion(kept)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func otherRoot(n byte) func(*image.Manifest) {
	return func(m *image.Manifest) { m.Root.Index = chunk.Sum([]byte{n}) }
}

// running boots a node until it is up, and returns its boot and session.
func (s *site) running(n *node) (boot fleet.BootID, session string) {
	s.t.Helper()
	cfg := n.load()
	session = "Bearer " + n.register(cfg).Session
	s.clock.add(time.Minute)
	s.reportUp(n, cfg.Boot, session)
	return cfg.Boot, session
}

// reportUp reports that a node is up.
func (s *site) reportUp(n *node, boot fleet.BootID, session string) {
	s.t.Helper()
	b := s.bootOf(boot)
	req := api.ReportRequest{
		Boot:   boot,
		Uptime: time.Minute,
		Status: &api.NodeStatus{Version: b.Version, Release: "test", Systemd: &api.Systemd{State: "running"}},
		Events: []trace.Event{{Stage: trace.Booted, Kind: trace.End, Offset: time.Minute}},
	}
	if e := n.post("/v1/node/events", session, req, nil); e != nil {
		s.t.Fatal(e)
	}
}

func (s *site) bootOf(id fleet.BootID) (b registry.Boot) {
	s.t.Helper()
	err := s.registry.View(s.t.Context(), func(tx *registry.Tx) (err error) { b, err = tx.Boot(id); return err })
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// A running node learns its next boot, starts it by its session, and registers with its token like others.
func TestNextBootOfARunningNode(t *testing.T) {
	s := startSite(t)
	old := s.withSystemd("257.8-1")
	n := s.node(1)
	boot, session := s.running(n)
	token := s.bootOf(boot).TokenMade
	next := s.withSystemd("257.8-1", otherRoot(2))
	for _, path := range []string{"/v1/node/stage", "/v1/node/next", "/v1/node/kexec"} {
		if status, body := n.postRaw(path, "Boot "+strings.Repeat("a", 26),
			api.NodeNext{Boot: boot}); status != http.StatusUnauthorized ||
			token.IsZero() {
			t.Errorf("%s without a session: %d %s", path, status, body)
		}
	}
	var staged api.StageResponse
	if e := n.post("/v1/node/stage", session, api.NodeNext{Boot: boot}, &staged); e != nil {
		t.Fatal(e)
	}
	var a fleet.Assignment
	if err := json.Unmarshal(staged.Assignment, &a); err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(
		s.keys.ServerPublic(),
		append([]byte(api.AssignmentContext), staged.Assignment...),
		staged.Signature,
	) {
		t.Error("it is not signed")
	}
	if a.Boot != boot || a.Version != next || next == old ||
		slices.ContainsFunc(a.Files, func(f fleet.File) bool { return strings.HasPrefix(f.Path, "/etc/ssh") }) {
		t.Errorf("%+v", a)
	}
	if got := s.bootOf(boot); got.Version != old {
		t.Error("what is staged is told of the boot that runs")
	}
	var begun api.BeginResponse
	if e := n.post("/v1/node/next", session, api.NodeNext{Boot: boot}, &begun); e != nil {
		t.Fatal(e)
	}
	if e := n.post("/v1/node/next", session, api.NodeNext{Boot: boot}, &begun); e == nil {
		t.Error("a boot is followed by two")
	}
	second := n.register(api.BootConfig{Boot: begun.Boot, Token: begun.Token, MAC: n.mac})
	if e := n.post("/v1/node/stage", session, api.NodeNext{Boot: boot}, nil); e == nil ||
		e.Status != http.StatusUnauthorized {
		t.Errorf("the session before lives: %v", e)
	}
	s.reportUp(n, begun.Boot, "Bearer "+second.Session)
	b := s.bootOf(begun.Boot)
	if b.Firmware != string(fleet.MethodSoftReboot) || b.Version != next || b.Node != "node001" {
		t.Errorf("%+v", b)
	}
	if got := strings.Join(s.eventsOf(begun.Boot), ", "); got != "script begin, script end, booted end" {
		t.Errorf("events: %s", got)
	}
}

// The token of a boot that loads its kernel does not give access to the next boot: otherwise anyone who read the token
// on the wire could take over the next boot.
func TestTokenIsNoNextBoot(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	for _, path := range []string{"/v1/node/stage", "/v1/node/next", "/v1/node/kexec"} {
		if status, body := n.postRaw(path, "Boot "+cfg.Token,
			api.NodeNext{Boot: cfg.Boot}); status != http.StatusUnauthorized {
			t.Errorf("%s by the token: %d %s", path, status, body)
		}
	}
	if e := n.post("/v1/node/stage", session, api.NodeNext{Boot: cfg.Boot}, nil); e != nil {
		t.Error(e)
	}
}

// The boot method follows from the two versions, and is reported with its reason. A method that was requested by name
// and is not possible is refused.
func TestMethodFollowsFromVersions(t *testing.T) {
	s := startSite(t)
	s.withSystemd("257.8-1")
	c := operatorOf(t, s)
	n := s.node(1)
	s.running(n)
	try := func(what, want string) {
		t.Helper()
		done, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: api.PowerAuto, DryRun: true})
		if err != nil || !strings.Contains(done.Did, want) {
			t.Errorf("%s: %+v, %v", what, done, err)
		}
		d, err := c.DiffNodes(t.Context(), "node001")
		if err != nil || len(d) != 1 || !strings.Contains(string(d[0].Method)+": "+d[0].MethodWhy, want) {
			t.Errorf("%s: diff %+v, %v", what, d, err)
		}
	}
	try("nothing changed", "soft-reboot: the kernel stays as it is")
	s.withSystemd("257.9-1", otherRoot(2))
	try("another root", "soft-reboot: the kernel stays as it is")
	s.withSystemd("252.39-1", otherRoot(3))
	try("an older systemd", "kexec: the next version has systemd 252")
	s.addImage(otherRoot(4))
	try("no list of packages", "kexec: it is not known which systemd")
	s.withSystemd("257.9-1", otherRoot(5), func(m *image.Manifest) { m.CommandLine = []string{"quiet", "splash"} })
	try("other arguments", "kexec: the kernel arguments change")
	s.withSystemd("257.9-1", otherRoot(6), func(m *image.Manifest) { m.Drivers = m.Drivers[:1] })
	try("other drivers", "kexec: the kernel or its drivers change")
	var refused *api.Error
	if _, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: api.PowerSoftReboot}); !errors.As(
		err,
		&refused,
	) ||
		!strings.Contains(refused.Message, "drivers change") {
		t.Errorf("a soft reboot that does not fit: %v", err)
	}
	s.withSystemd("257.9-1", otherRoot(7))
	state, persist := "nfs 10.0.0.1:/srv/state", []string{"/var/log"}
	if _, err := c.SetGroup(t.Context(), fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state,
			Persist: &persist}}}); err != nil {
		t.Fatal(err)
	}
	try("node state", "kexec: the node has node state (nfs)")
}

// Boots without firmware do not count for the usual boot time.
func TestUsualTimeIsOfFirmware(t *testing.T) {
	s := startSite(t)
	s.withSystemd("257.8-1")
	n := s.node(1)
	boot, session := s.running(n)
	usual := func() (d time.Duration) {
		t.Helper()
		s.update(
			func(tx *registry.Tx) (err error) {
				d, err = s.rollouts.UsualTime(t.Context(), tx, "node001")
				return err
			},
		)
		return d
	}
	want := usual()
	if want == 0 {
		t.Fatal("a boot that is up took no time")
	}
	for range 3 {
		var begun api.BeginResponse
		if e := n.post("/v1/node/next", session, api.NodeNext{Boot: boot}, &begun); e != nil {
			t.Fatal(e)
		}
		boot, session = begun.Boot, "Bearer "+n.register(
			api.BootConfig{Boot: begun.Boot, Token: begun.Token, MAC: n.mac},
		).Session
		s.clock.add(20 * time.Minute)
		s.reportUp(n, boot, session)
	}
	if got := usual(); got != want {
		t.Errorf("%s, before %s", got, want)
	}
}
