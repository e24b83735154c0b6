package storm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/bench"
	"pando/internal/sim"
)

// withKReport returns two storms from power-on with round figures: W is 1 MB and K is 2 MB, and each node's link needs
// ten seconds for W.
func withKReport() *report {
	node := func(admitted, there, booted float64) nodeRun {
		return nodeRun{
			K:      &nodeK{Bytes: 2e6, Admitted: admitted, There: there, Asked: 1},
			Booted: booted,
			Taken:  bench.Usage{Received: map[string]int64{"server": 5e5}},
		}
	}
	one := stormRun{
		System:     bestName(),
		Nodes:      1,
		NodeRate:   851064,
		ServerRate: 851064,
		Unit:       10,
		BootSet:    1e6,
		Segment:    unstamped,
		ServerSent: 3.2e6,
		K:          &runK{Slots: 2, Pieces: 10, From: "servers"},
		Each:       []nodeRun{node(0.1, 20, 31)},
	}
	three := one
	three.Nodes, three.ServerSent, three.K = 3, 7.5e6, &runK{Slots: 2, Pieces: 10, From: "servers"}
	three.Each = []nodeRun{node(0.1, 40, 71), node(0.1, 41, 72), node(39, 61, 73)}
	busy := one
	busy.System, busy.Load, busy.Discarded, busy.K = unicastName, bench.Load{
		Busy: 0.9,
	}, true, &runK{
		Slots:  2,
		Pieces: 10,
	}
	r := &report{BootSet: 1e6, Pieces: 12}
	for _, x := range []stormRun{one, three, busy} {
		if err := x.finish(); err != nil {
			panic(err)
		}
		r.add(x)
	}
	return r
}

func TestWithKFigures(t *testing.T) {
	r := withKReport()
	if len(r.Runs) != 0 || len(r.WithK) != 3 || len(r.storms()) != 3 {
		t.Fatalf("%d runs with K, %d others, %d in all", len(r.WithK), len(r.Runs), len(r.storms()))
	}
	x := r.WithK[1]
	if x.K.First != 40 || x.K.Last != 61 || x.K.Together != 3 || x.K.Bytes != 2e6 {
		t.Errorf("got %+v", x.K)
	}
	if got := x.serverBytesK(); got != 7e6 {
		t.Errorf("the server has to send %d bytes", got)
	}
	if got := r.WithK[2].serverBytesK(); got != 3e6 {
		t.Errorf("without peers the server has to send %d bytes to one", got)
	}
	if got := x.boundK(); got < 69.9 || got > 70.1 {
		t.Errorf("it takes %g s at least", got)
	}
	x.ServerRate *= 10 // a node's own link is the bound
	if got := x.boundK(); got < 29.9 || got > 30.1 {
		t.Errorf("with a fast server it takes %g s at least", got)
	}
	x.System, x.ServerRate = unicastName, x.NodeRate
	if got := x.serverBytesK(); got != 9e6 {
		t.Errorf("without peers the server has to send %d bytes", got)
	}
}

// A line has the storm's duration in units of what the links need, and the simulated duration of the same storm.
func TestWithKRows(t *testing.T) {
	r := withKReport()
	rows := r.withKRows(false)
	beside := func(x stormRun) string {
		s, err := sim.Run(x.labStorm(0).Config())
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(
			"%.2f|%.2f|%.2f|%.2f",
			s.Last.Seconds()/x.boundK(),
			x.K.Last/s.LastK.Seconds(),
			x.Median/s.Median.Seconds(),
			x.Last/s.Last.Seconds(),
		)
	}
	for i, want := range []string{"prefetch|1|851.1kbit|0 of 1|discarded: the machine was 90 % busy, more than 70 " +
		"%, 90 % of it with other programs",
		"peers|1|851.1kbit|1 of 1|2.0 MB|servers|0 %|0, 0|2|20.0 s|20.0 s|31.0 s|31.0 s|31.0 s|1.00|1.03|" +
			beside(r.WithK[0]) + "|1.03|0 %",
		"peers|3|851.1kbit|1 of 1|2.0 MB|servers|0 %|0, 0|2|40.0 s|61.0 s|71.0 s|72.0 s|73.0 " +
			"s|2.35|1.04|" + beside(r.WithK[1]) + "|2.41|0 %"} {
		if len(rows) != 3 || strings.Join(rows[i], "|") != want {
			t.Errorf("line %d of %v\nwant %s", i, rows, want)
		}
	}
}

// The simulator gets K, and is compared with the time when all nodes had it.
func TestWithKSimulated(t *testing.T) {
	r := withKReport()
	got := r.labStorms()
	if len(got) != 2 {
		t.Fatalf("%d storms", len(got))
	}
	want := sim.LabStorm{
		Nodes:      3,
		NodeLink:   851064,
		ServerLink: 851064,
		W:          1e6,
		Pieces:     10,
		K:          2e6,
		LastK:      61 * time.Second,
		Median:     72 * time.Second,
		Last:       73 * time.Second,
		Server:     15e5,
	}
	if got[1] != want || got[1].Config().K != 2e6 {
		t.Errorf("got %+v, want %+v", got[1], want)
	}
}

func TestCheckK(t *testing.T) {
	for _, args := range [][]string{{"--rate", "10mbit", "--systems", "chunks"}, {"--rate", "10mbit", "--tell"},
		{"--rate", "10mbit", "--fault", "all"}, {"--rate", "10mbit", "--guests", "1"},
		{"--rate", "10mbit", "--cold"}, {}} {
		var out strings.Builder
		if _, err := New(others(), append([]string{"--dir", t.TempDir(), "--k"}, args...), &out, &out); err == nil ||
			!strings.Contains(out.String(), "--k") {
			t.Errorf("%v: got %v, %s", args, err, &out)
		}
	}
	var out strings.Builder
	s, err := New(
		others(),
		[]string{"--dir", t.TempDir(), "--k", "--rate", "10mbit", "--server-rate", "20mbit"},
		&out,
		&out,
	)
	if err != nil || len(s.wanted) != 1 || s.wanted[0] != bestName() {
		t.Fatalf("%v: %v, %s", s.wanted, err, &out)
	}
	s.job = job{Node: 10e6, Server: 20e6}
	if got := strings.Join(s.linkFlags(), " "); got != "--uplink 20mbit" {
		t.Errorf("the server is told %s", got)
	}
}
