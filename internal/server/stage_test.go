package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/trace"
)

// A node is told to fetch its next version ahead, if it can go to that version.
func TestStageNode(t *testing.T) {
	s := startSite(t)
	s.withSystemd("257.8-1")
	c := operatorOf(t, s)
	n := s.node(1)
	boot, session := s.running(n)
	next := s.withSystemd("257.8-1", otherRoot(2))
	done := make(chan error, 1)
	go func() {
		_, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: api.PowerStage})
		done <- err
	}()
	e := s.commandFor(n, boot, session, nil)
	if e.Kind != api.StageNode {
		t.Fatalf("%+v", e)
	}
	if err := n.post("/v1/node/errand", session, api.NodeCommandReport{Boot: boot, ID: e.ID}, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	status := &api.NodeStatus{Version: s.bootOf(boot).Version, Staged: next}
	if err := n.post("/v1/node/events", session, api.ReportRequest{Boot: boot, Uptime: time.Hour, Status: status},
		nil); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Node(t.Context(), "node001"); err != nil || v.Status.Staged != next || v.Running == next ||
		v.Desired != next {
		t.Errorf("%+v, %v", v, err)
	}
	s.withSystemd("252.39-1", otherRoot(3))
	var refused *api.Error
	if _, err := c.SwitchNode(t.Context(), "node001", api.PowerDo{Action: api.PowerStage}); !errors.As(err, &refused) ||
		!strings.Contains(refused.Message, "systemd 252") {
		t.Errorf("%v", err)
	}
}

// commandFor reports for a node until it is given a command.
func (s *site) commandFor(n *node, boot fleet.BootID, session string, each func()) api.NodeCommand {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if each != nil {
			each()
		}
		var got api.ReportResponse
		if e := n.post("/v1/node/events", session,
			api.ReportRequest{Boot: boot, Uptime: time.Hour, Events: []trace.Event{}}, &got); e != nil {
			s.t.Fatal(e)
		}
		if got.Command != nil {
			return *got.Command
		}
	}
	s.t.Fatal("it is asked for nothing")
	return api.NodeCommand{}
}

// A rollout with a closed window makes its nodes fetch the version ahead. A boot before the window opens gets the old
// version.
func TestRolloutStagesBeforeItsWindow(t *testing.T) {
	s := startSite(t)
	old := s.withSystemd("257.8-1")
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.Image, g.Follow = fleet.Ref("lab@"+old), false
		return errors.Join(err, tx.PutGroup(g))
	})
	c := operatorOf(t, s)
	n := s.node(1)
	boot, session := s.running(n)
	next := s.withSystemd("257.8-1", otherRoot(2))
	s.update(func(tx *registry.Tx) error {
		g, err := tx.Group(fleet.DefaultGroup)
		g.Image, g.Follow = fleet.Ref("lab@"+old), false
		return errors.Join(err, tx.PutGroup(g))
	})
	later := fleet.Window(s.clock.now().AddDate(0, 0, 3).Weekday().String()[:3] + " 10:00-11:00")
	plan := fleet.RolloutPlan{Method: fleet.MethodAuto, Windows: []fleet.Window{later}}
	if _, err := c.StartRollout(t.Context(),
		api.RolloutStart{Group: fleet.DefaultGroup, Image: "lab", Plan: plan}); err != nil {
		t.Fatal(err)
	}
	e := s.commandFor(n, boot, session, func() {
		if err := s.rollouts.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if e.Kind != api.StageNode {
		t.Fatalf("%+v", e)
	}
	if err := n.post("/v1/node/errand", session, api.NodeCommandReport{Boot: boot, ID: e.ID}, nil); err != nil {
		t.Fatal(err)
	}
	var staged api.StageResponse
	if e := n.post("/v1/node/stage", session, api.NodeNext{Boot: boot}, &staged); e != nil {
		t.Fatal(e)
	}
	var a fleet.Assignment
	if err := json.Unmarshal(staged.Assignment, &a); err != nil || a.Version != next {
		t.Errorf("%s is staged, want %s; %v", a.Version.Short(), next.Short(), err)
	}
	var begun api.BeginResponse
	if e := n.post("/v1/node/next", session, api.NodeNext{Boot: boot}, &begun); e != nil {
		t.Fatal(e)
	}
	if got := s.bootOf(begun.Boot).Version; got != old {
		t.Errorf("the next boot is of %s, want %s until it is taken", got.Short(), old.Short())
	}
}
