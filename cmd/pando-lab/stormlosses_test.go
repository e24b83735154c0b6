package main

import (
	"strings"
	"testing"
)

// Where only one machine alone was compared, its losses stand all the same.
func TestLossesAlone(t *testing.T) {
	alone := &aloneResult{Clock: byInstructions, Seconds: map[string][]float64{pandoWay: {5}, "disk": {4}, "nfs": {6}}}
	if got, want := (&report{}).losses(alone), lossText+"- `disk`, one machine alone, by the clock of "+
		"instructions: the time since /init 5.00 s to 4.00 s\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (&report{}).losses(); !strings.HasPrefix(got, "Nothing was compared") {
		t.Errorf("of nothing: %q", got)
	}
}

// A rival has one line for each number of nodes, with all that it is better in. Times are compared in what links of
// their rates could do, a figure that was not measured is none, and 0 can be one.
func TestLossesOfStorms(t *testing.T) {
	ours := stormRun{
		System:       bestName(),
		Nodes:        10,
		NodeRate:     12e6,
		Unit:         50,
		Last:         55,
		BootSet:      1e6,
		Read:         1e6,
		ServerSent:   1e6,
		ServerCPU:    0.5,
		ServerMemory: 70e6,
		Each:         []nodeRun{{Stalled: 25, Wait99: 1, Link: 35e4, Taken: taken{CPU: 0.6, Memory: 34e6}}},
	}
	theirs := stormRun{
		System:       "nbd",
		Nodes:        10,
		NodeRate:     12e6,
		Unit:         1,
		Last:         16,
		BootSet:      1e6,
		Read:         1e6,
		ServerSent:   16e6,
		ServerCPU:    0,
		ServerMemory: 57e6,
		Each:         []nodeRun{{Stalled: 14, Wait99: 0.01, Link: 105e4}},
	}
	r := &report{Runs: []stormRun{ours, theirs}}
	want := lossText + "- `nbd`, N=10, links of 12mbit: the wait of 99 in 100 reads, in thousandths, 20.00 to " +
		"10.00, the server's processor time 0.50 s to 0.00 s, the server's memory 70 MB to 57 MB\n"
	if got := r.losses(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Runs[1].Each[0].Taken = taken{CPU: 0.5, Memory: 12e6}
	r.Runs[1].Last, r.Runs[1].Each[0].Stalled, r.Runs[1].ServerCPU = 1, 0, 1
	for _, want := range []string{"the time of the last node 1.10 to 1.00", "the time that the boot stood still " +
		"0.50 to 0.00", "the client's processor time 0.60 s to 0.50 s", "the client's memory 34 MB to 12 MB"} {
		if got := r.losses(); !strings.Contains(got, want) || strings.Contains(got, "server's processor") ||
			strings.Count(got, "- `nbd`") != 1 {
			t.Errorf("no %q in %q", want, got)
		}
	}
	r.Runs = r.Runs[1:]
	if got := r.losses(); !strings.HasPrefix(got, "Nothing was compared") {
		t.Errorf("without Pando: %q", got)
	}
}

// Of emulated machines the newest run counts, beside Pando's on links of the same rate.
func TestLossesOfGuests(t *testing.T) {
	run := func(system string, rate int64, sinceInit float64) guestRun {
		return guestRun{
			System:     system,
			Guests:     4,
			Rate:       rate,
			Booted:     []float64{90},
			SinceInit:  []float64{sinceInit},
			ServerSent: 50e6,
			RootSent:   60e6,
		}
	}
	failed := run("nbd-squashfs", 1e10, 40)
	failed.Failed = []string{"guest1: not booted"}
	r := &report{
		Guests: []guestRun{
			run(pandoWay, 2e7, 55),
			run("nfs", 2e7, 50),
			run("nfs", 2e7, 78),
			run("nbd-squashfs", 2e7, 47),
			run(pandoWay, 1e10, 61),
			failed,
			run("nfs", 1e10, 57),
		},
	}
	want := lossText + "- `nfs`, 4 emulated machines, links of 20mbit: what the server sent of the root 60.0 MB " +
		"to 47.8 MB\n" +
		"- `nbd-squashfs`, 4 emulated machines, links of 20mbit: the time of the last one since /init 55.0 s to " +
		"47.0 s, what the server sent of the root 60.0 MB to 47.8 MB\n" +
		"- `nfs`, 4 emulated machines, links of 10gbit: the time of the last one since /init 61.0 s to 57.0 s, " +
		"what the server sent of the root 60.0 MB to 47.8 MB\n"
	if got := r.losses(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
