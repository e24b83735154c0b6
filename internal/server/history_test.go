package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/trace"
)

// settled waits until the history has seen all events.
func (s *site) settled() {
	s.t.Helper()
	for {
		seq, err := s.registry.HistoryMark(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if seq >= s.registry.Last() {
			return
		}
		time.Sleep(5 * time.Millisecond) // the length does not matter
	}
}

// bootMany plays boots of nodes one after another, each slightly different from the one before.
func (s *site) bootMany(from, n byte, r recorded, slow float64) {
	s.t.Helper()
	for i := range n {
		p := s.node(from + i).play(r)
		p.slow = slow * (1 + float64(i%5)/100)
		s.clock.add(2 * r.Uptime)
		p.report(trace.Booted, 2*r.Uptime)
	}
}

// TestBootHistory: boots stay in the history with group, version and class. A comparison names the slower version and
// its stage, and finds no difference between boots of one version. The history survives a restart without duplicates.
func TestBootHistory(t *testing.T) {
	s := startSite(t)
	r := readRecorded(t)
	_, v1 := s.addImage()
	s.bootMany(1, 7, r, 1)
	_, v2 := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"quiet", "slow"} })
	s.bootMany(11, 7, r, 1.5)
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	for range 2 {
		s.settled()
		past, err := c.History(t.Context(), api.HistoryQuery{})
		if err != nil || len(past) != 14 {
			t.Fatalf("%d boots, %v", len(past), err)
		}
		if b := past[0]; b.Version != v2 || b.Group != fleet.DefaultGroup ||
			b.Class != "qemu-standard-pc-q35-ich9-2009" ||
			b.State != trace.Up ||
			b.Ends[trace.Booted] != b.Elapsed ||
			b.Bytes["server"] == 0 {
			t.Errorf("newest boot: %+v", b)
		}
		s.restart()
	}
	if past, err := c.History(t.Context(),
		api.HistoryQuery{Select: "node001,node002", Version: "lab@" + fleet.Ref(v1)}); err != nil ||
		len(past) != 2 {
		t.Errorf("of two nodes: %d boots, %v", len(past), err)
	}
	x, err := c.CompareHistory(t.Context(), "lab@"+fleet.Ref(v1), "lab@"+fleet.Ref(v2), "")
	if err != nil || !x.Changes[0].Real || x.Changes[0].Shift < 10*time.Second || x.Culprit != trace.Booted {
		t.Errorf("compared: %+v, %v", x, err)
	}
	if x, err := c.CompareHistory(t.Context(), "lab@"+fleet.Ref(v1), "lab@"+fleet.Ref(v1), ""); err != nil ||
		x.Changes[0].Real ||
		x.Culprit != "" {
		t.Errorf("compared with itself: %+v, %v", x.Changes[0], err)
	}
	f, err := c.HistoryFigures(t.Context(), "version", api.HistoryQuery{})
	if err != nil || len(f.Of) != 2 || f.Of[0].Boots != 7 || f.Of[0].P50 == 0 || f.Of[0].P95 < f.Of[0].P50 {
		t.Errorf("figures: %+v, %v", f, err)
	}
	if _, err := c.HistoryFigures(t.Context(), "colour", api.HistoryQuery{}); !api.IsCode(err, api.BadRequest) {
		t.Errorf("figures by colour: %v", err)
	}
	if _, err := c.CompareHistory(t.Context(), "lab", "", ""); !api.IsCode(err, api.BadRequest) {
		t.Errorf("compared with nothing: %v", err)
	}
}

// TestFailedBootInHistory: a failed boot has its failure in the history, and counts as failed.
func TestFailedBootInHistory(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	cfg := n.load()
	e := n.post(
		"/v1/node/events",
		"Boot "+cfg.Token,
		api.ReportRequest{Boot: cfg.Boot, Uptime: time.Second, Events: []trace.Event{
			{Stage: trace.Link, Kind: trace.Fail, Offset: time.Second, Message: "no cable"}}},
		nil,
	)
	if e != nil {
		t.Fatal(e)
	}
	s.settled()
	c := api.OverSocket(filepath.Join(s.cfg.Dir, SocketFile))
	past, err := c.History(t.Context(), api.HistoryQuery{})
	if err != nil || len(past) != 1 || past[0].State != trace.Failed || !strings.Contains(past[0].Failure, "no cable") {
		t.Fatalf("%+v, %v", past, err)
	}
	f, err := c.HistoryFigures(t.Context(), "class", api.HistoryQuery{})
	if err != nil || len(f.Of) != 1 || f.Of[0].Failures != 1 || f.Of[0].Boots != 0 || f.Of[0].Name != "unknown" {
		t.Errorf("%+v, %v", f, err)
	}
}
