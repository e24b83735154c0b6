package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// stateful is a site with a group that keeps /srv in a place that all nodes share. Its nodes report what a node's
// script would.
type stateful struct {
	*site
	c *api.Client
}

func startStateful(t *testing.T, on string) *stateful {
	t.Helper()
	s := &stateful{site: startSite(t)}
	s.addImage()
	s.c = operatorOf(t, s.site)
	s.keep(on)
	return s
}

func (s *stateful) keep(on string) {
	s.t.Helper()
	if _, err := s.c.SetGroup(s.t.Context(), "default",
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &on,
			Persist: &[]string{"/srv"}}}}); err != nil {
		s.t.Fatal(err)
	}
}

// boot boots a node, and returns the calls of its state script, its report script, and a function that reports.
func (s *stateful) boot(n byte) (calls, report string, say func(string)) {
	s.t.Helper()
	x := s.node(n)
	cfg := x.load()
	resp := x.register(cfg)
	files := assigned(s.t, resp).Files
	script := content(files, "/run/pando/state.sh")
	if i := strings.Index(script, "\nsettle\n"); i >= 0 {
		script = script[i+len("\nsettle\n"):]
	}
	return script, content(files, "/run/pando/state-report.sh"), func(text string) {
		s.t.Helper()
		r := api.ReportRequest{
			Boot:   cfg.Boot,
			Uptime: time.Second,
			Status: &api.NodeStatus{State: text},
			Events: []trace.Event{{Stage: trace.Booted, Kind: trace.End}},
		}
		if e := x.post("/v1/node/events", "Bearer "+resp.Session, r, nil); e != nil {
			s.t.Fatal(e)
		}
	}
}

func (s *stateful) of(node string) (out api.StateOf) {
	s.t.Helper()
	list, err := s.c.State(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, x := range list {
		if x.Node == node {
			return x
		}
	}
	return out
}

func (s *stateful) wants(what, text string, parts ...string) {
	s.t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			s.t.Errorf("%s: no %q in\n%s", what, p, text)
		}
	}
}

const onNFS = "on\tnfs 10.0.0.1:/state\tnfs 10.0.0.1:/state\n"

// The next boot carries out a reset, and reports that. Until then the reset can be withdrawn. What the node keeps is
// shown as it reported.
func TestStateIsReset(t *testing.T) {
	s := startStateful(t, "nfs 10.0.0.1:/state")
	ctx := t.Context()
	if _, err := s.c.ResetState(ctx, "node001", api.StateChange{}); err == nil {
		t.Error("there is no such node yet")
	}
	calls, _, say := s.boot(1)
	if calls != "tidy\nseed '/srv' 'srv'\nwatch\n" {
		t.Errorf("a first boot does\n%s", calls)
	}
	say(onNFS + "kept\t/srv\t1795600000\t-\n")
	say(onNFS + "kept\t/srv\t1795600000\t4096\n")
	say(onNFS + "kept\t/srv\t1795600000\t-\n") // its agent restarted
	if p := s.of("node001").Places; len(p) != 1 || len(p[0].Paths) != 1 ||
		p[0].Paths[0] != (fleet.KeptPath{Path: "/srv", Since: time.Unix(1795600000, 0).UTC(), Bytes: 4096}) {
		t.Errorf("it keeps %+v", p)
	}
	_, err := s.c.ResetState(ctx, "node001", api.StateChange{Paths: []string{"/etc"}})
	refusedWith(t, "what is not kept", err, "does not keep /etc")
	if _, err := s.c.ResetState(ctx, "node001", api.StateChange{}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.c.WithdrawState(ctx, "node001"); err != nil || got.Orders != nil || !got.On {
		t.Errorf("taken back: %+v, %v", got, err)
	}
	_, err = s.c.WithdrawState(ctx, "node001")
	refusedWith(t, "nothing to take back", err, "there are no orders")
	for _, c := range []struct {
		paths []string
		call  string
	}{{[]string{"/srv"}, "' 'srv'\n"}, {nil, "'\ntidy"}} {
		got, err := s.c.ResetState(ctx, "node001", api.StateChange{Paths: c.paths})
		if err != nil || len(got.Orders) != 1 || got.Orders[0].Who == "" {
			t.Fatalf("%+v, %v", got, err)
		}
		id := got.Orders[0].ID
		for range 2 { // until the node has reported that it is done
			calls, _, say = s.boot(1)
			s.wants("boot", calls, "reset '"+id+c.call)
		}
		say(onNFS + "done\t" + id + "\nkept\t/srv\t1795600001\t-\n")
		if got := s.of("node001"); got.Orders != nil || got.Last == nil || got.Last.ID != id ||
			got.Places[0].Paths[0].Bytes != -1 && c.paths == nil {
			t.Errorf("done: %+v", got)
		}
	}
	if calls, _, _ = s.boot(1); strings.Contains(calls, "reset") {
		t.Errorf("it is done again:\n%s", calls)
	}
	s.told1("node001", "/srv of the node's state: reset", "the node's state was reset")
}

// told1 fails unless the timelines of a node have these messages.
func (s *stateful) told1(node string, messages ...string) {
	s.t.Helper()
	events, err := s.registry.Events(s.t.Context(), registry.EventFilter{})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, m := range messages {
		if !slices.ContainsFunc(
			events,
			func(e trace.Event) bool { return e.Node == node && strings.Contains(e.Message, m) },
		) {
			s.t.Errorf("no timeline of %s says %q", node, m)
		}
	}
}

// A copy is made directly from the state of the other node, but not while that node is on.
func TestStateIsCopied(t *testing.T) {
	s := startStateful(t, "nfs 10.0.0.1:/state")
	ctx := t.Context()
	for n := range 2 {
		_, _, say := s.boot(byte(n + 1))
		say(onNFS)
	}
	copyTo := func(force bool) (api.StateOf, error) {
		return s.c.CopyState(ctx, "node002", api.StateChange{From: "node001", Force: force})
	}
	_, err := copyTo(false)
	refusedWith(t, "it is on", err, "node001 is on")
	s.clock.add(time.Hour)
	if _, err = copyTo(false); err != nil {
		t.Fatal(err)
	}
	s.boot(1)
	calls, _, _ := s.boot(2)
	if strings.Contains(calls, "take") {
		t.Error("it is copied while the other one is on")
	}
	s.told1("node002", "the copy of node001 waits: node001 is on")
	got, err := copyTo(true)
	if err != nil || len(got.Orders) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	calls, _, say := s.boot(2)
	s.wants("boot", calls, "take '"+got.Orders[0].ID+"' 'node001'\ntidy")
	say(onNFS + "failed\t" + got.Orders[0].ID + "\tno room\n")
	if x := s.of("node002"); x.Orders != nil || x.Last == nil || x.Last.Error != "no room" {
		t.Errorf("%+v", x)
	}
	s.told1("node002", "not done, the copy of node001 of node state: no room")

	s.keep("directory /mnt/state")
	_, err = copyTo(true)
	refusedWith(t, "another place", err, "node001 keeps nothing where")
	s.keep("disk")
	_, err = copyTo(true)
	refusedWith(t, "a disk that it never had", err, "node001 has not reported yet that it keeps anything on its disk")
}

// A new node with the name of a deleted one inherits nothing. The state of the deleted node can be copied and removed
// by nodes with the same place. A renamed node keeps its state.
func TestStateOfDeletedNodes(t *testing.T) {
	s := startStateful(t, "nfs 10.0.0.1:/state")
	ctx := t.Context()
	_, _, say := s.boot(1)
	say(onNFS + "kept\t/srv\t-\t7\n")
	s.boot(2)
	if _, err := s.c.DeleteNodes(ctx, "node001", false); err != nil {
		t.Fatal(err)
	}
	old := registry.DeletedName("node001", s.now())
	if got := s.of(old); got.Deleted.IsZero() || got.Dir != "node001" || got.Places[0].Paths[0].Bytes != 7 {
		t.Errorf("what it left: %+v", got)
	}
	name := "node001"
	if _, err := s.c.CreateNode(ctx, api.NodeCreate{Name: name, MACs: []fleet.MAC{s.node(3).mac}}); err != nil {
		t.Fatal(err)
	}
	s.inDir(3, "node001+2")
	is := "renamed"
	if _, err := s.c.SetNodes(ctx, api.NodeSet{Select: name, Name: &is}); err != nil {
		t.Fatal(err)
	}
	s.inDir(3, "node001+2")
	if _, err := s.c.CopyState(ctx, is, api.StateChange{From: old}); err != nil {
		t.Fatal(err)
	}
	calls, _, _ := s.boot(3)
	s.wants("copy", calls, "' 'node001'\ntidy")

	got, err := s.c.ResetState(ctx, old, api.StateChange{})
	if err != nil || len(got.Orders) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	_, report, say := s.boot(2)
	s.wants("remove", report, "\tgone '"+got.Orders[0].ID+"' 'node001'\n")
	say(onNFS + "done\t" + got.Orders[0].ID + "\n")
	if got := s.of(old); got.Node != "" {
		t.Errorf("removed, it is still there: %+v", got)
	}
	s.told1("node002", "the state of "+old+" was removed")
	if _, report, _ = s.boot(2); strings.Contains(report, "\tgone ") {
		t.Error("it is removed again")
	}
}

// inDir fails unless a node keeps its state in a directory.
func (s *stateful) inDir(n byte, dir string) {
	s.t.Helper()
	if _, report, _ := s.boot(n); !strings.Contains(report, "base='/run/pando/state/"+dir+"'\n") {
		s.t.Errorf("not in %s:\n%s", dir, report)
	}
}

// The record of a deleted node's state on its own disk is deleted.
func TestStateOnADiskIsForgotten(t *testing.T) {
	s := startStateful(t, "disk")
	ctx := t.Context()
	_, _, say := s.boot(1)
	say("on\tdisk\tdisk\nkept\t/srv\t-\t7\n")
	if got, err := s.c.ResetState(ctx, "node001", api.StateChange{}); err != nil || len(got.Orders) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	calls, _, _ := s.boot(1)
	s.wants("boot", calls, "reset '")
	if _, err := s.c.DeleteNodes(ctx, "node001", false); err != nil {
		t.Fatal(err)
	}
	old := registry.DeletedName("node001", s.now())
	if got := s.of(old); len(got.Places) != 1 || got.Orders != nil {
		t.Errorf("what it left: %+v", got)
	}
	if _, err := s.c.ResetState(ctx, old, api.StateChange{}); err != nil {
		t.Fatal(err)
	}
	if got := s.of(old); got.Node != "" {
		t.Errorf("not forgotten: %+v", got)
	}
}

// A volume is renamed with its node, and set aside when the node is deleted, by any request.
func TestVolumeFollowsItsNode(t *testing.T) {
	s := startSite(t)
	c, ctx := operatorOf(t, s), t.Context()
	file := func(name string) string { return filepath.Join(s.cfg.Dir, "volumes", name+".qcow2") }
	if err := errors.Join(os.MkdirAll(filepath.Dir(file("")), 0o700),
		os.WriteFile(file("was"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateNode(ctx, api.NodeCreate{Name: "was", MACs: []fleet.MAC{s.node(1).mac}}); err != nil {
		t.Fatal(err)
	}
	is := "is"
	if _, err := c.SetNodes(ctx, api.NodeSet{Select: "was", Name: &is}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file(is)); err != nil {
		t.Error(err)
	}
	if _, err := c.ApplyFleet(ctx,
		api.Apply{Prune: true, Declaration: api.Declaration{Owns: api.Owns{Nodes: "is"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file(registry.DeletedName(is, s.now()))); err != nil {
		t.Error(err)
	}
}
