package server

import (
	"slices"
	"testing"
	"time"

	"pando/internal/api"
)

// TestSignOfLife: an empty report updates when the node was last seen. It makes no event, changes nothing else, and
// rarely costs a write. A report without a session has no effect.
func TestSignOfLife(t *testing.T) {
	s := startSite(t)
	_, version := s.addImage()
	c := operatorOf(t, s)
	n := s.node(1)
	cfg := n.load()
	session := "Bearer " + n.register(cfg).Session
	full := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Status: &api.NodeStatus{Version: version, Reads: 7}}
	if e := n.post("/v1/node/events", session, full, nil); e != nil {
		t.Fatal(e)
	}
	events, first := s.eventsOf(cfg.Boot), s.now()
	beat := api.ReportRequest{Boot: cfg.Boot, Uptime: time.Minute}
	for range 4 {
		s.clock.add(time.Minute)
		if e := n.post("/v1/node/events", session, beat, nil); e != nil {
			t.Fatal(e)
		}
	}
	view, err := c.Node(t.Context(), "node001")
	if err != nil || !view.Seen.Equal(s.now()) || view.Status == nil || view.Status.Reads != 7 {
		t.Errorf("node at %s: %+v, status %+v, %v", s.now(), view, view.Status, err)
	}
	if now := s.eventsOf(cfg.Boot); !slices.Equal(now, events) {
		t.Errorf("events became %v", now)
	}
	if kept, err := s.discovery.Node(t.Context(), n.mac); err != nil || kept.Seen.After(first) {
		t.Errorf("written for each: %+v, %v", kept, err)
	}
	last := s.now()
	s.clock.add(time.Minute)
	if e := n.post("/v1/node/events", "Bearer x", beat, nil); e == nil {
		t.Error("taken without a session")
	}
	if nodes, err := c.Nodes(t.Context(), ""); err != nil || len(nodes) != 1 || !nodes[0].Seen.Equal(last) {
		t.Errorf("after a stranger's: %+v, %v", nodes, err)
	}
}
