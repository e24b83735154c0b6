package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/hooks"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/trace"
)

// rolling is a site with a group of machines that run one version, and a second version.
type rolling struct {
	*site
	c        *api.Client
	old, new fleet.Digest
	nodes    []*played
}

// played is a machine that boots what it is assigned, and executes its commands.
type played struct {
	*node
	name    string
	boot    fleet.BootID
	session string
	uptime  time.Duration
	version fleet.Digest
	broken  []string // units that fail on the new version
}

func startRolling(t *testing.T, n int) *rolling {
	t.Helper()
	r := &rolling{site: startSite(t)}
	_, r.old = r.addImage()
	_, r.new = r.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "new"} })
	r.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		if err != nil {
			return err
		}
		g.Image, g.Follow = fleet.Ref("lab@"+r.old), false
		return tx.PutGroup(g)
	})
	r.c = operatorOf(t, r.site)
	for i := range n {
		p := &played{node: r.node(byte(i + 1)), name: fmt.Sprintf("node%03d", i+1)}
		r.nodes = append(r.nodes, p)
		p.up(r)
	}
	return r
}

// up boots the machine.
func (p *played) up(r *rolling) {
	p.t.Helper()
	cfg := p.load()
	p.boot, p.session = cfg.Boot, "Bearer "+p.register(cfg).Session
	p.uptime, p.version = time.Minute, r.nodeOf(p.name).Desired
	p.wait(time.Minute)
	status := &api.NodeStatus{
		Version: p.version,
		Systemd: &api.Systemd{State: "running", Failed: []string{"old.service"}},
	}
	if p.version == r.new {
		status.Systemd.Failed = append(status.Systemd.Failed, p.broken...)
	}
	p.report(status, trace.Event{Stage: trace.Booted, Kind: trace.End, Offset: time.Minute})
}

// report sends a report, and returns the node's command.
func (p *played) report(status *api.NodeStatus, events ...trace.Event) *api.NodeCommand {
	p.t.Helper()
	p.uptime += time.Second
	var got api.ReportResponse
	if e := p.post("/v1/node/events", p.session,
		api.ReportRequest{Boot: p.boot, Uptime: p.uptime, Status: status, Events: events}, &got); e != nil {
		p.t.Fatal(e)
	}
	return got.Command
}

func (r *rolling) nodeOf(name string) api.Node {
	r.t.Helper()
	n, err := r.c.Node(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// round makes each machine report and execute its command, advances the clock, and steps the rollout.
func (r *rolling) round() {
	r.t.Helper()
	if err := r.rollouts.Look(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	for _, p := range r.nodes {
		e := p.report(nil)
		if e == nil {
			continue
		}
		if e.Kind != api.RebootNode {
			r.t.Fatalf("%s is asked for %+v", p.name, e)
		}
		if err := p.post("/v1/node/errand", p.session, api.NodeCommandReport{Boot: p.boot, ID: e.ID}, nil); err != nil {
			r.t.Fatal(err)
		}
		p.report(nil, trace.Event{Stage: trace.Shutdown, Kind: trace.End, Offset: p.uptime})
		p.up(r)
	}
	r.clock.add(5 * time.Second)
}

// ends plays rounds until the rollout has ended, and returns it.
func (r *rolling) ends(id string) api.Rollout {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		r.round()
		x, err := r.c.Rollout(r.t.Context(), id)
		if err != nil {
			r.t.Fatal(err)
		}
		if !x.State.Live() {
			return x
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("it does not end: %+v", x)
		}
	}
}

func (r *rolling) begin(plan fleet.RolloutPlan) api.Rollout {
	r.t.Helper()
	x, err := r.c.StartRollout(r.t.Context(), api.RolloutStart{Group: "default", Image: "lab", Plan: plan})
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

func (r *rolling) hook(name, script string) {
	r.t.Helper()
	dir := filepath.Join(r.cfg.Dir, hooks.Dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// A good version reaches every node: hooks drain nodes and judge the version, the group gets it, and events report it.
// The server restarts in the middle.
func TestRolloutToASoundVersion(t *testing.T) {
	r := startRolling(t, 3)
	log := filepath.Join(r.dir, "log")
	for _, h := range []string{"drain", "undrain", "check"} {
		r.hook(h, fmt.Sprintf("echo $PANDO_USE $PANDO_NODE $PANDO_ADDRESS ${PANDO_TARGET#*:} >> %s\n", log))
	}
	x := r.begin(
		fleet.RolloutPlan{
			Wave:           "1",
			MaxUnavailable: "1",
			Gates:          []fleet.Gate{"booted", "units", "script:check"},
			Drain:          "drain",
			Undrain:        "undrain",
		},
	)
	if x.ID != "default-1" || x.Waves != 3 || x.Usual == 0 || !slices.Equal(x.Broken, []string{"old.service"}) {
		t.Fatalf("%+v", x)
	}
	if n := r.nodeOf("node001"); n.Rollout != x.ID || n.Desired != r.old {
		t.Errorf("%+v", n)
	}
	for r.nodes[0].version == r.old {
		r.round()
	}
	if n := r.nodeOf("node002"); n.Desired != r.old || r.nodeOf("node001").Desired != r.new {
		t.Errorf("the canary has booted, and node002 is to boot %s", n.Desired)
	}
	r.restart()
	r.c = operatorOf(t, r.site)
	x = r.ends(x.ID)
	g, err := r.c.Group(t.Context(), "default")
	if err != nil || x.State != fleet.RolloutDone || g.Desired != r.new || g.Image != fleet.Ref("lab@"+r.new) ||
		x.Phases[fleet.PhasePassed] != 3 {
		t.Errorf("%+v, %v, group %+v", x, err, g)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drain node001 127.0.0.1 " + string(r.old)[7:],
		"check node001 127.0.0.1 " + string(r.new)[7:], "undrain node003 127.0.0.1 " + string(r.new)[7:]} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("no hook said %q:\n%s", want, text)
		}
	}
	var told []string
	events, err := r.registry.Events(t.Context(), registry.EventFilter{})
	for _, e := range events {
		if e.Stage == trace.Rollout && e.Node == "" {
			told = append(told, e.Message)
		}
	}
	if want := []string{"wave 2 of 3 begins", "wave 3 of 3 begins", "done"}; err != nil || !slices.Equal(told, want) {
		t.Errorf("told %q, %v, want %q", told, err, want)
	}
	if err := r.c.DeleteRollout(t.Context(), x.ID); err != nil {
		t.Error(err)
	}
}

// A version on which a unit fails reaches only the canary, which is rolled back; the group does not change. Meanwhile
// other changes of the group's version are refused, and the versions are kept.
func TestRolloutOfABadVersion(t *testing.T) {
	r := startRolling(t, 3)
	for _, p := range r.nodes {
		p.broken = []string{"new.service"}
	}
	before, err := r.c.Group(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range [][2]string{{"latest", string(r.old)}, {"latest", string(r.new)}, {"v2", string(r.new)}} {
		if _, err := r.c.SetTag(t.Context(), "lab", move[0], api.TagSet{Ref: fleet.Ref("lab@" + move[1])}); err != nil {
			t.Fatal(err)
		}
	}
	x := r.begin(fleet.RolloutPlan{})
	image := fleet.Ref("lab")
	if _, err := r.c.SetGroup(t.Context(), "default", api.GroupSet{Image: &image}); !api.IsCode(err, api.Conflict) {
		t.Errorf("the group's image is set: %v", err)
	}
	if _, err := r.c.StartRollout(t.Context(), api.RolloutStart{Group: "default", Image: "lab"}); !api.IsCode(
		err,
		api.Conflict,
	) {
		t.Errorf("a second rollout: %v", err)
	}
	if err := r.c.DeleteVersion(t.Context(), "lab", r.old); !api.IsCode(err, api.Conflict) ||
		!strings.Contains(err.Error(), x.ID) {
		t.Errorf("the version to go back to is deleted: %v", err)
	}
	x = r.ends(x.ID)
	after, err := r.c.Group(t.Context(), "default")
	if err != nil || x.State != fleet.RolloutRolledBack || after.Image != before.Image {
		t.Errorf("%+v, %v, group %+v", x, err, after)
	}
	// Tags that were moved to the bad version are moved back. A tag that only ever named that version stays.
	if want := "node node001: units failed that had not failed before: new.service; tag lab:latest is back at " +
		r.old.Short(); x.Reason != want {
		t.Errorf("reason %q, want %q", x.Reason, want)
	}
	if i, err := r.c.Image(t.Context(), "lab"); err != nil || i.Tags["latest"] != r.old || i.Tags["v2"] != r.new {
		t.Errorf("tags %v, %v", i.Tags, err)
	}
	for _, p := range r.nodes {
		if n := r.nodeOf(p.name); n.Desired != r.old || n.Running != r.old || n.Rollout != "" {
			t.Errorf("%+v", n)
		}
	}
	if boots, err := r.c.Boots(t.Context(), "node002", 9); err != nil || len(boots) != 1 {
		t.Errorf("node002 has booted %d times, %v", len(boots), err)
	}
}

// A node that was given the new version for a try takes part: it is the canary, and has its group's image again. If the
// version is bad it returns with the others, and nothing leads back to that version.
func TestRolloutOfATriedVersion(t *testing.T) {
	for _, bad := range []bool{false, true} {
		t.Run(fmt.Sprintf("bad %t", bad), func(t *testing.T) { rolloutOfATriedVersion(t, bad) })
	}
}

func rolloutOfATriedVersion(t *testing.T, bad bool) {
	r := startRolling(t, 3)
	ctx := t.Context()
	set := api.NodeSet{Select: "node002", Version: ptr(fleet.Ref("lab"))}
	if _, err := r.c.SetNodes(ctx, set); err != nil {
		t.Fatal(err)
	}
	tried := r.nodes[1]
	tried.up(r)
	if n := r.nodeOf("node002"); n.Running != r.new || n.Version == "" {
		t.Fatalf("it tries %s: %+v", n.Running, n)
	}
	if bad {
		tried.broken = []string{"new.service"}
		tried.up(r)
	}
	plan := fleet.RolloutPlan{Wave: "1"}
	dry, err := r.c.StartRollout(ctx, api.RolloutStart{Group: "default", Image: "lab", Plan: plan, DryRun: true})
	if err != nil || r.nodeOf("node002").Version == "" {
		t.Fatalf("a dry run changes the node: %+v, %v", dry, err)
	}
	x := r.begin(plan)
	if n := r.nodeOf("node002"); n.Version != "" || n.Desired != r.new || x.Nodes[0].Node != "node002" {
		t.Errorf("the canary is %s; the node that tried has %q and is to boot %s", x.Nodes[0].Node, n.Version,
			n.Desired)
	}
	x = r.ends(x.ID)
	want, ends := r.new, fleet.RolloutDone
	if bad {
		want, ends = r.old, fleet.RolloutRolledBack
	}
	if x.State != ends {
		t.Errorf("bad %t: it ends %s: %s", bad, x.State, x.Reason)
	}
	for _, p := range r.nodes {
		if n := r.nodeOf(p.name); n.Desired != want || n.Running != want || n.Version != "" {
			t.Errorf("bad %t: %s is to boot %s and runs %s; want %s", bad, n.Name, n.Desired, n.Running, want)
		}
	}
}

// A group of one node: the README's two lines, try it and roll it out, do what they say.
func TestRolloutOfTheOnlyNode(t *testing.T) {
	r := startRolling(t, 1)
	set := api.NodeSet{Select: "node001", Version: ptr(fleet.Ref("lab"))}
	if _, err := r.c.SetNodes(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	r.nodes[0].up(r)
	x := r.ends(r.begin(fleet.RolloutPlan{Gates: []fleet.Gate{"booted"}}).ID)
	if n := r.nodeOf("node001"); x.State != fleet.RolloutDone || n.Desired != r.new || n.Version != "" {
		t.Errorf("%s: %s; %+v", x.State, x.Reason, n)
	}
}

// Operators pause, resume and abort; a plan that cannot be carried out is refused; a dry run tells the waves and
// begins nothing.
func TestRolloutVerbs(t *testing.T) {
	r := startRolling(t, 2)
	ctx := t.Context()
	for _, c := range []struct {
		why string
		req api.RolloutStart
	}{
		{"no such file", api.RolloutStart{Group: "default", Image: "lab", Plan: fleet.RolloutPlan{Drain: "none"}}},
		{`group "none": not found`, api.RolloutStart{Group: "none", Image: "lab"}},
		{"already", api.RolloutStart{Group: "default", Image: fleet.Ref("lab@" + r.old)}},
		{"unknown time zone",
			api.RolloutStart{Group: "default", Image: "lab", Plan: fleet.RolloutPlan{Zone: "Nowhere/City"}}},
		{"hook name", api.RolloutStart{Group: "default", Image: "lab",
			Plan: fleet.RolloutPlan{Gates: []fleet.Gate{"script:../x"}}}},
		{"is none of the nodes",
			api.RolloutStart{Group: "default", Image: "lab", Plan: fleet.RolloutPlan{CanaryNodes: []string{"pc9"}}}},
		{`image "none": not found`, api.RolloutStart{Group: "default", Image: "none"}},
	} {
		if x, err := r.c.StartRollout(ctx, c.req); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("want a refusal with %q: %v, %+v", c.why, err, x)
		}
	}
	x, err := r.c.StartRollout(ctx, api.RolloutStart{Group: "default", Image: "lab", DryRun: true})
	if err != nil || len(x.Nodes) != 2 || !x.DryRun {
		t.Fatalf("%+v, %v", x, err)
	}
	if all, err := r.c.Rollouts(ctx, ""); err != nil || len(all) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	x = r.begin(fleet.RolloutPlan{Windows: []fleet.Window{"Mon 03:00-03:01"}, Zone: "UTC"}) // it is Saturday
	r.round()
	if x, err = r.c.PauseRollout(ctx, x.ID); err != nil || x.State != fleet.RolloutPaused ||
		r.nodes[0].version != r.old {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := r.c.PauseRollout(ctx, x.ID); !api.IsCode(err, api.Conflict) {
		t.Error(err)
	}
	if x, err = r.c.ResumeRollout(ctx, x.ID); err != nil || x.State != fleet.RolloutRunning {
		t.Errorf("%+v, %v", x, err)
	}
	if err := r.c.DeleteRollout(ctx, x.ID); !api.IsCode(err, api.Conflict) {
		t.Error(err)
	}
	if _, err := r.c.AbortRollout(ctx, x.ID); err != nil {
		t.Error(err)
	}
	if x = r.ends(x.ID); x.State != fleet.RolloutRolledBack || x.Reason != "aborted by this machine" {
		t.Errorf("%+v", x)
	}
	if st, err := r.c.Status(ctx); err != nil || len(st.Rollouts) != 0 {
		t.Errorf("%+v, %v", st.Rollouts, err)
	}
}

// The changes by a reboot are shown in advance: kernel arguments, also those of the group, and the root.
func TestNodeDiff(t *testing.T) {
	r := startRolling(t, 1)
	d, err := r.c.DiffNodes(t.Context(), "node001")
	if err != nil || len(d) != 1 || d[0].Changes || d[0].Running != r.old {
		t.Fatalf("%+v, %v", d, err)
	}
	args, image := []string{"console=ttyS0"}, fleet.Ref("lab")
	if _, err := r.c.SetGroup(t.Context(), "default", api.GroupSet{KernelArgs: &args, Image: &image}); err != nil {
		t.Fatal(err)
	}
	d, err = r.c.DiffNodes(t.Context(), "")
	if err != nil || len(d) != 1 || !d[0].Changes || d[0].Desired != r.new || d[0].Root ||
		!slices.Equal(d[0].ArgsNew, []string{"new", "console=ttyS0"}) {
		t.Errorf("%+v, %v", d, err)
	}
}
