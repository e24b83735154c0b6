package server

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/hooks"
	"pando/internal/registry"
	"pando/internal/server/power"
	"pando/internal/trace"
)

// relay is a program that switches nodes: a file per node holds its power state, and a log records the actions.
const relay = `#!/bin/sh
cd "$(dirname "$0")/../relay" || exit 1
[ "$PANDO_PASSWORD" = sesame ] || { echo "wrong password"; exit 1; }
[ "$PANDO_ACTION" = status ] || echo "$PANDO_NODE $PANDO_ACTION" >>log
case $PANDO_ACTION in
on | cycle) echo on >"$PANDO_NODE" ;;
off) echo off >"$PANDO_NODE" ;;
esac
[ ! -e "$PANDO_NODE.$PANDO_ACTION.fails" ] || { echo the relay is stuck; exit 1; }
cat "$PANDO_NODE" 2>/dev/null || echo off
`

// switched is a site whose default group is switched by relay.
type switched struct {
	*site
	t *testing.T
	c *api.Client
	p *power.Controller
}

func startSwitched(t *testing.T, settings fleet.Settings) *switched {
	t.Helper()
	return switchedBy(t, startSite(t), settings)
}

// switchedBy installs relay on a site.
func switchedBy(t *testing.T, on *site, settings fleet.Settings) *switched {
	t.Helper()
	s := &switched{site: on, t: t}
	s.addImage()
	s.c = operatorOf(t, s.site)
	for _, dir := range []string{hooks.Dir, "relay"} {
		if err := os.MkdirAll(filepath.Join(s.cfg.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, hooks.Dir, "relay"), []byte(relay), 0o755); err != nil {
		t.Fatal(err)
	}
	settings.Power = new(fleet.Power("command:relay"))
	if _, err := s.c.SetGroup(t.Context(), fleet.DefaultGroup, api.GroupSet{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	if err := s.c.SetGroupPassword(t.Context(), fleet.DefaultGroup, "sesame"); err != nil {
		t.Fatal(err)
	}
	s.again()
	return s
}

// again makes a new Controller, as after a restart, without pauses between nodes. The server's own has checked
// timetables once by then, and does so again only after the test.
func (s *switched) again() {
	c := s.powerConfig()
	c.Pace = func(context.Context) {}
	s.p = power.New(c)
	for !s.p.LastAlive(s.t.Context()).Equal(s.clock.now()) {
		time.Sleep(time.Millisecond) // it happens in the background
	}
}

func (s *switched) restart() {
	s.t.Helper()
	s.site.restart()
	s.c = operatorOf(s.t, s.site)
	s.again()
}

func (s *switched) node(name string, n byte) {
	s.t.Helper()
	if _, err := s.c.CreateNode(s.t.Context(),
		api.NodeCreate{Name: name, MACs: []fleet.MAC{{0x52, 0x54, 0, 0, 0, n}}}); err != nil {
		s.t.Fatal(err)
	}
}

// log returns what relay was told to do since the last call.
func (s *switched) log() string {
	s.t.Helper()
	s.p.Wait()
	path := filepath.Join(s.cfg.Dir, "relay", "log")
	b, _ := os.ReadFile(path)
	_ = os.Remove(path)
	return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ", ")
}

func (s *switched) do(name string, action api.PowerAction) (api.PowerDone, error) {
	return s.c.SwitchNode(s.t.Context(), name, api.PowerDo{Action: action})
}

func TestPowerByAProgram(t *testing.T) {
	s := startSwitched(t, fleet.Settings{})
	s.node("pc001", 1)
	s.node("pc002", 2)
	if got, err := s.do("pc001", api.PowerStatus); err != nil || got.State != "off" || got.Did != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := s.do("pc001", api.PowerOn); err != nil || got.Did != "switched on" ||
		got.Method != fleet.PowerCommand {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.c.SwitchNode(t.Context(), "pc002", api.PowerDo{Action: api.PowerOn, DryRun: true}); err != nil ||
		got.Did != "on" {
		t.Errorf("dry: %+v, %v", got, err)
	}
	if got := s.log(); got != "pc001 on" {
		t.Errorf("it was asked for %q", got)
	}
	list, err := s.c.Power(t.Context(), "pc[001-002]")
	if err != nil || list[0].Wanted != "on" || list[0].WantedBy != "this machine" || !list[0].Password ||
		list[0].Address != "relay" ||
		list[1].Wanted != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "relay", "pc001.cycle.fails"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do("pc001", api.PowerCycle); !api.IsCode(err, api.Conflict) ||
		!strings.Contains(err.Error(), "the relay is stuck") {
		t.Error(err)
	}
	if _, err := s.c.SwitchNode(t.Context(), "pc001", api.PowerDo{Action: "explode"}); !api.IsCode(
		err,
		api.BadRequest,
	) {
		t.Error(err)
	}
	events, err := s.c.Events(t.Context(), -20, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range events.Events {
		if e.Stage == trace.Power {
			told = append(told, e.Node+" "+string(e.Kind)+" "+e.Message)
		}
	}
	want := "pc001 info switched on by command for this machine|pc001 fail power cycle for this machine: cycle by " +
		"command: relay: exit status 1: the relay is stuck"
	if got := strings.Join(told, "|"); got != want {
		t.Errorf("told is\n%s\nwant\n%s", got, want)
	}
}

// TestPowerPasswordIsSealed: the registry does not reveal a password; a node's own password takes precedence, and
// survives a change of the node's name.
func TestPowerPasswordIsSealed(t *testing.T) {
	s := startSwitched(t, fleet.Settings{})
	s.node("pc001", 1)
	if err := s.c.SetNodePassword(t.Context(), "pc001", "my own one"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do("pc001", api.PowerOn); err == nil || !strings.Contains(err.Error(), "wrong password") {
		t.Errorf("with a password of its own: %v", err)
	}
	name := "pc009"
	if _, err := s.c.SetNodes(t.Context(), api.NodeSet{Select: "pc001", Name: &name}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do("pc009", api.PowerOn); err == nil || !strings.Contains(err.Error(), "wrong password") {
		t.Errorf("renamed: %v", err)
	}
	for _, f := range []string{registry.File, registry.File + "-wal", registry.EventsFile,
		registry.EventsFile + "-wal"} {
		b, err := os.ReadFile(filepath.Join(s.cfg.Dir, f))
		if err == nil && (bytes.Contains(b, []byte("sesame")) || bytes.Contains(b, []byte("my own one"))) {
			t.Errorf("%s has a password in it", f)
		}
	}
	if err := s.c.SetNodePassword(t.Context(), "pc009", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.do("pc009", api.PowerOn); err != nil {
		t.Errorf("with its group's again: %v", err)
	}
	if err := s.c.SetGroupPassword(t.Context(), "nowhere", "x"); !api.IsCode(err, api.NotFound) {
		t.Error(err)
	}
}

// TestPowerOffByTheAgent: a node that can only be woken is shut down by its agent.
func TestPowerOffByTheAgent(t *testing.T) {
	s := startSite(t)
	s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	beat := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second}
	if e := n.post("/v1/node/events", session, beat, nil); e != nil {
		t.Fatal(e)
	}
	type answer struct {
		api.PowerDone
		err error
	}
	for action, kind := range map[api.PowerAction]api.NodeCommandKind{api.PowerOff: api.PowerOffNode,
		api.PowerCycle: api.RebootNode} {
		done := make(chan answer, 1)
		go func() {
			d, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: action})
			done <- answer{d, err}
		}()
		var got api.ReportResponse
		for got.Command == nil {
			if e := n.post("/v1/node/events", session, beat, &got); e != nil {
				t.Fatal(e)
			}
		}
		if got.Command.Kind != kind {
			t.Errorf("%s: the node is asked for %s", action, got.Command.Kind)
		}
		if e := n.post("/v1/node/errand", session, api.NodeCommandReport{
			Boot: cfg.Boot, ID: got.Command.ID}, nil); e != nil {
			t.Fatal(e)
		}
		if a := <-done; a.err != nil || !strings.HasPrefix(a.Did, "asked to") || a.State != "on" {
			t.Errorf("%s: %+v", action, a)
		}
	}
	s.clock.add(time.Hour)
	if _, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: api.PowerOff}); err == nil ||
		!strings.Contains(err.Error(), "cannot switch it off") {
		t.Errorf("one that is quiet: %v", err)
	}
}

// TestHoursSwitchNodes: timetables switch nodes once at their times, also after the server was down, and do not undo
// later actions of an operator.
func TestHoursSwitchNodes(t *testing.T) {
	// the clock starts on a Saturday at noon
	s := startSwitched(t, fleet.Settings{Hours: new(fleet.Hours("Mon-Fri 07:45-22:00; UTC"))})
	s.node("pc001", 1)
	s.node("pc002", 2)
	look := func(d time.Duration) string {
		t.Helper()
		s.clock.add(d)
		if err := s.p.SwitchByHours(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s.log()
	}
	off := "none"
	hours := fleet.Hours(off)
	if _, err := s.c.SetGroup(t.Context(), fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Hours: &hours}}); !api.IsCode(
		err,
		api.BadRequest,
	) {
		t.Error(err)
	}
	hours = "08:00-09:00; Nowhere/Here"
	if _, err := s.c.SetGroup(t.Context(), fleet.DefaultGroup,
		api.GroupSet{Settings: fleet.Settings{Hours: &hours}}); !api.IsCode(
		err,
		api.BadRequest,
	) ||
		!strings.Contains(err.Error(), "Nowhere/Here") {
		t.Error(err)
	}
	if got := look(0); got != "" {
		t.Errorf("a timetable that is new switches nothing, but %q", got)
	}
	if got := look(44 * time.Hour); got != "pc001 on, pc002 on" && got != "pc002 on, pc001 on" { // Monday at 8
		t.Errorf("in the morning: %q", got)
	}
	if got := look(time.Minute); got != "" {
		t.Errorf("a minute later: %q", got)
	}
	s.clock.add(13*time.Hour + 50*time.Minute) // 21:51
	s.restart()
	s.clock.add(30 * time.Minute) // 22:21; the server is back after its time
	if _, err := s.do("pc001", api.PowerOn); err != nil {
		t.Fatal(err)
	}
	_ = s.log()
	if got := look(0); got != "pc002 off" {
		t.Errorf("in the evening, with one that somebody switched on again: %q", got)
	}
}

// TestSweepAfterAPowerCut: after a power cut the server wakes silent nodes that ran before or should be on.
func TestSweepAfterAPowerCut(t *testing.T) {
	s := startSwitched(t, fleet.Settings{Sweep: new(true)})
	for i, name := range []string{"ran", "hangs", "came-back", "was-off", "long-gone", "stays"} {
		s.node(name, byte(i+1))
	}
	sweep := false
	if _, err := s.c.SetNodes(t.Context(),
		api.NodeSet{Select: "stays", Settings: fleet.Settings{Sweep: &sweep}}); err != nil {
		t.Fatal(err)
	}
	seen := func(names ...string) {
		s.update(func(tx *registry.Tx) error {
			for _, name := range names {
				n, err := tx.Node(name)
				if err != nil {
					return err
				}
				n.Seen = s.clock.now()
				if err := tx.PutNode(name, n); err != nil {
					return err
				}
			}
			return nil
		})
	}
	seen("long-gone")
	s.clock.add(48 * time.Hour)
	seen("ran", "hangs", "came-back", "was-off", "stays")
	if _, err := s.do("was-off", api.PowerOff); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.cfg.Dir, "relay", "hangs"), []byte("on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.clock.now()
	s.clock.add(3 * time.Hour)
	s.restart()
	s.clock.add(power.WakeAfter)
	seen("came-back")
	_ = s.log()
	s.p.WakeLost(t.Context(), before)
	if got := sorted(s.log()); got != "hangs cycle, ran on" {
		t.Errorf("woken are %q", got)
	}
	// A batch that an operator starts includes all nodes that should be on, or of which nothing says that they should
	// be off.
	for _, name := range []string{"long-gone", "was-off", "came-back"} {
		if _, err := s.do(name, api.PowerWake); err != nil {
			t.Error(err)
		}
	}
	if got := s.log(); got != "long-gone on" {
		t.Errorf("swept are %q", got)
	}
}

func sorted(list string) string {
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
