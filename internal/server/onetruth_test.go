package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// says reports an event and a status of a node.
func (p *replayed) says(e *trace.Event, st *api.NodeStatus) {
	p.t.Helper()
	req := api.ReportRequest{Boot: p.boot, Uptime: time.Hour, Status: st}
	if e != nil {
		req.Events = []trace.Event{*e}
	}
	if err := p.post("/v1/node/events", "Bearer "+p.session, req, nil); err != nil {
		p.t.Fatal(err)
	}
}

// fleetOfEachState boots a node for each state that one can be in, by name.
func (s *site) fleetOfEachState() map[string]trace.State {
	s.t.Helper()
	r := readRecorded(s.t)
	s.addImage()
	up := map[trace.State]*replayed{}
	for i, state := range []trace.State{trace.Up, trace.Degraded, trace.Silent, trace.Down} {
		up[state] = s.node(byte(i + 1)).play(r)
		s.clock.add(r.Uptime)
		up[state].report(trace.Booted, r.Uptime)
	}
	s.node(5).load() // its kernel runs, and it goes silent
	link := s.node(6).play(r)
	link.says(&trace.Event{Stage: trace.Link, Kind: trace.Fail, Message: "no cable"}, nil)
	up[trace.Down].says(&trace.Event{Stage: trace.Shutdown, Kind: trace.End, Offset: 50 * time.Minute}, nil)
	s.clock.add(5 * time.Minute)
	broken := r.Status
	broken.Systemd = &api.Systemd{State: "degraded", Failed: []string{"nginx.service"}}
	up[trace.Degraded].says(nil, &broken)
	up[trace.Up].says(nil, nil)
	s.node(7).load()
	s.settled()
	return map[string]trace.State{"pc001": trace.Up, "pc002": trace.Degraded, "pc003": trace.Silent,
		"pc004": trace.Down, "pc005": trace.Failed, "pc006": trace.Failed, "pc007": trace.Booting}
}

// A node has the same state everywhere: in lists of nodes and boots, in the status, in the faults, in the metrics and
// on the dashboard's map. All counts are of these states.
func TestEverybodyTellsTheSameState(t *testing.T) {
	s := startSite(t, func(c *Config) {
		c.Dashboard, c.DashboardOpen, c.MetricsOpen = "127.0.0.1:0", true, true
	})
	s.policy(fleet.Open)
	want := s.fleetOfEachState()
	counts := map[string]int{}
	for _, state := range want {
		counts[string(state)]++
	}
	c, ctx := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile)), t.Context()
	nodes, err := c.Nodes(ctx, "")
	if err != nil || len(nodes) != len(want) {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for _, n := range nodes {
		if n.Boot.State != want[n.Name] {
			t.Errorf("list of nodes: %s is %s, want %s", n.Name, n.Boot.State, want[n.Name])
		}
		if b, err := c.NodeBoot(ctx, n.Name); err != nil || b.State != want[n.Name] ||
			(b.Fault != nil) != (b.State == trace.Failed || b.State == trace.Degraded) {
			t.Errorf("timeline of %s: %s, %+v, %v", n.Name, b.State, b.Fault, err)
		}
	}
	boots, err := c.Boots(ctx, "", 100)
	if err != nil || len(boots) != len(want) {
		t.Errorf("%d boots, %v", len(boots), err)
	}
	for _, b := range boots {
		if b.State != want[b.Node] {
			t.Errorf("list of boots: %s is %s, want %s", b.Node, b.State, want[b.Node])
		}
	}
	failed, err := c.FailedBoots(ctx, "", 0)
	if err != nil || len(failed) != counts["failed"]+counts["degraded"] {
		t.Errorf("what is wrong: %+v, %v", failed, err)
	}
	for _, b := range failed {
		if b.State != want[b.Node] {
			t.Errorf("what is wrong: %s is %s", b.Node, b.State)
		}
	}
	st, err := c.Status(ctx)
	if err != nil || st.Failed != len(failed) {
		t.Errorf("status: %d wrong, %v", st.Failed, err)
	}
	delete(st.Nodes, "adopted")
	if delete(st.Nodes, "drift"); !maps.Equal(st.Nodes, counts) {
		t.Errorf("status: %v, want %v", st.Nodes, counts)
	}
	s.metricsTell(counts)
	s.mapTells(want, counts)
}

// openPage returns the page at a path of the dashboard.
func (s *site) openPage(path string) string {
	s.t.Helper()
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", s.DashboardPort(), path))
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *site) metricsTell(counts map[string]int) {
	s.t.Helper()
	got := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^pando_nodes\{.*state="(\w+)".*\} (\d+)`).
		FindAllStringSubmatch(s.openPage("/metrics"), -1) {
		var n int
		fmt.Sscan(m[2], &n)
		got[m[1]] += n
	}
	if !maps.Equal(got, counts) {
		s.t.Errorf("metrics: %v, want %v", got, counts)
	}
}

func (s *site) mapTells(want map[string]trace.State, counts map[string]int) {
	s.t.Helper()
	page := s.openPage("/")
	for _, m := range regexp.MustCompile(`class="t (\w+)[^"]*" id="n-(\w+)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != string(want[m[2]]) {
			s.t.Errorf("map: %s is %s, want %s", m[2], m[1], want[m[2]])
		}
	}
	for state, n := range counts {
		if text := fmt.Sprintf(`<dd data-count="%s">%d</dd>`, state, n); !strings.Contains(page, text) {
			s.t.Errorf("the map does not say %s", text)
		}
	}
	for name := range want {
		if node := s.openPage("/nodes/" + name); !strings.Contains(node, `class="mood `+string(want[name])+`"`) {
			s.t.Errorf("page of %s: it is not %s", name, want[name])
		}
	}
}

// A machine that lost its power does not stay booted: when it comes back, the earlier boot has ended.
func TestKilledMachineIsDown(t *testing.T) {
	s := startSite(t)
	s.addImage()
	r := readRecorded(t)
	p := s.node(1).play(r)
	s.clock.add(r.Uptime)
	p.report(trace.Booted, r.Uptime)
	s.clock.add(2 * time.Minute)
	s.node(1).load()
	if got := s.progress(p.boot); got.State != trace.Down || got.Ready.IsZero() {
		t.Errorf("the boot before: %+v", got)
	}
}
