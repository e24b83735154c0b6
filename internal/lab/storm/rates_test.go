package storm

import (
	"testing"

	"pando/internal/bench"
)

// rated returns a storm that took 2 W/(eta B), plus the given time.
func rated(system string, nodes int, rate int64, more float64) stormRun {
	return stormRun{
		System:     system,
		Nodes:      nodes,
		NodeRate:   rate,
		ServerRate: rate,
		Unit:       10,
		Last:       20 + more,
		Median:     20,
		BootSet:    1e6,
		Read:       4e6,
		ServerSent: 1e6,
		Each:       []nodeRun{{Booted: 20 + more, Link: 1e6, Taken: bench.Usage{CPU: more / 10}}},
	}
}

// Storms on links of different rates are different kinds: each rate has a line, compared with a single node at that
// rate.
func TestRatesAreKindsOfTheirOwn(t *testing.T) {
	best := bestName()
	r := &report{
		BootSet: 1e6,
		Read:    4e6,
		Runs: []stormRun{
			rated(best, 1, 2e6, 1),
			rated(best, 1, 12e6, 4),
			rated(best, 10, 12e6, 6),
			rated(best, 40, 1.9e6, 2),
		},
	}
	if got := len(r.kinds()); got != 4 {
		t.Fatalf("%d kinds", got)
	}
	for i, want := range [][3]string{{"12mbit", "24.0 s", "1.00"}, {"2mbit", "21.0 s", "1.00"},
		{"12mbit", "24.0 s", "1.08"}, {"1.9mbit", "~21.0 s", "~1.05"}} {
		if x := r.rows(false)[i]; x[2] != want[0] || x[4] != want[1] || x[9] != want[2] {
			t.Errorf("line %d: %q, want %q", i, x, want)
		}
	}
}

// A storm whose server's link differs from the nodes' links is of its own kind.
func TestServersLinkIsOfTheKind(t *testing.T) {
	best := bestName()
	uneven := rated(best, 40, 2e6, -10)
	uneven.ServerRate, uneven.Complete = 100e6, 5
	even := rated(best, 40, 2e6, 2)
	even.Complete = 12
	r := &report{BootSet: 1e6, Read: 4e6, Runs: []stormRun{uneven, even, uneven}}
	rows := r.rows(false)
	if len(rows) != 2 || rows[0][2] != "2mbit" || rows[1][2] != "2mbit, the server's 100mbit" {
		t.Errorf("lines %q", rows)
	}
}

// A boot waits until its root is readable: fetching the whole image first does not make a system faster.
func TestFetchingAllFirstIsStandingStill(t *testing.T) {
	theirs := rated("torrent", 10, 2e6, 200)
	theirs.Each[0] = nodeRun{Attached: 200, Link: 20e6, Taken: bench.Usage{Memory: 20e6}}
	if got := theirs.costRow()[3]; got != "200.0 s" {
		t.Errorf("stood still for %q", got)
	}
}

// A storm in which nodes worked most of the time is not used for the simulator, which does not model processors.
func TestSimulatedStormsAreOfLinks(t *testing.T) {
	r := &report{
		BootSet: 1e6,
		Read:    4e6,
		Pieces:  20,
		Runs: []stormRun{
			rated(bestName(), 1, 2e6, 1),
			rated(bestName(), 10, 2e6, 30),
			rated("nbd", 1, 2e6, 1),
			rated(unicastName, 10, 2e6, 1),
		},
	}
	r.Runs[3].Discarded = true
	if r.Runs[1].Each[0].Taken.CPU = 5.1; r.Runs[1].Last != 50 {
		t.Fatalf("the last boot is over after %g s", r.Runs[1].Last)
	}
	got := r.labStorms()
	if len(got) != 1 || got[0].Nodes != 1 || got[0].NodeLink != 2e6 || got[0].Pieces != 20 {
		t.Errorf("got %+v", got)
	}
}
