package sim

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

// What the server sends in the lab, relative to the simulation. It may be more, because of transfers that broke off.
const (
	labServerLeast = 0.95
	// The least when nodes finish loading kernel+initrd one by one: about a tenth of W is simulated that real servers
	// do not send.
	labServerWithK = 0.85
	labServerMost  = 1.40
)

// The simulator agrees with the storms of the lab, within the bounds that `pando plan` prints. `pando-lab storm --sim
// internal/sim/testdata/lab.json` writes the measurements.
func TestSimulatorAgainstTheLab(t *testing.T) {
	b, err := os.ReadFile("testdata/lab.json")
	if err != nil {
		t.Fatal(err)
	}
	var lab Lab
	if err := json.Unmarshal(b, &lab); err != nil {
		t.Fatal(err)
	}
	type kind struct {
		nodes int
		withK bool
	}
	measured := map[kind]bool{}
	for _, x := range lab.Storms {
		c := x.Config()
		storm := run
		if x.Nodes <= 40 && !x.Unicast {
			storm = median
		}
		r := storm(t, c)
		unit, w := c.Unit().Seconds(), float64(x.W)
		off := x.Last.Seconds() / r.Last.Seconds()
		t.Logf(
			"%2d nodes, %2.0f Mb/s, unicast %v: lab %5.2f W/B, simulated %5.2f, %.2f times; the server sent %5.2f "+
				"W, simulated %5.2f",
			x.Nodes,
			float64(
				x.NodeLink,
			)/1e6,
			x.Unicast,
			x.Last.Seconds()/unit,
			r.Last.Seconds()/unit,
			off,
			float64(x.Server)/w,
			float64(r.ServerBytes)/w,
		)
		if most := time.Duration(LabMost*float64(r.Last)) + LabStart; off < LabLeast || x.Last > most {
			t.Errorf(
				"%d nodes: %.2f times what is simulated; the bounds are %.2f, and %.2f and %v",
				x.Nodes,
				off,
				LabLeast,
				LabMost,
				LabStart,
			)
		}
		least := labServerLeast
		if x.K > 0 {
			least = labServerWithK
		}
		if sent := float64(x.Server) / float64(r.ServerBytes); sent < least || sent > labServerMost {
			t.Errorf(
				"%d nodes: the server sent %.2f times what is simulated; the bounds are %.2f and %.2f",
				x.Nodes,
				sent,
				least,
				labServerMost,
			)
		}
		measured[kind{x.Nodes, x.K > 0}] = true
		if x.K > 0 {
			logK(t, x, r)
		}
	}
	for _, n := range []int{1, 10, 40} {
		for _, withK := range []bool{false, true} {
			if !measured[kind{n, withK}] {
				t.Errorf("no storm of %d nodes was measured, with K: %v", n, withK)
			}
		}
	}
}

// logK logs the times of kernel+initrd and of the median boot, in the lab and simulated. Nothing checks them.
func logK(t *testing.T, x LabStorm, r Result) {
	t.Helper()
	t.Logf(
		"   with K of %.1f MB: all have it after %.1f s, simulated %.1f s, %.2f times; half have booted after "+
			"%.1f s, simulated %.1f s, %.2f times",
		float64(x.K)/1e6,
		x.LastK.Seconds(),
		r.LastK.Seconds(),
		x.LastK.Seconds()/r.LastK.Seconds(),
		x.Median.Seconds(),
		r.Median.Seconds(),
		x.Median.Seconds()/r.Median.Seconds(),
	)
}

// A boot that computes longer than its link needs ends after its computing. A boot that computes little waits for the
// link.
func TestThinking(t *testing.T) {
	for _, x := range []struct{ think, least, most float64 }{{0.5, 1, 1.02}, {3, 2.95, 3.02}} {
		c := set(1, 100)
		c.Reads, c.Think = true, c.Unit()*time.Duration(10*x.think)/10
		r := run(t, c)
		if got := r.Last.Seconds() / c.Unit().Seconds(); got < x.least || got > x.most {
			t.Errorf("thinking %g W/B: %.2f", x.think, got)
		}
	}
	c := set(1, 100)
	c.Think = c.Unit()
	if _, err := Run(c); err == nil {
		t.Error("a boot without reads thinks")
	}
}
