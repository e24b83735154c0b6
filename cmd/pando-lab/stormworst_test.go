package main

import (
	"strings"
	"testing"
)

// What is aimed at for each node holds with any number of nodes: one with which it is missed is what counts.
func TestWorstOfAllN(t *testing.T) {
	run := func(n int, link, memory, control int64) stormRun {
		return stormRun{
			System:  bestName(),
			Nodes:   n,
			Unit:    1,
			Last:    1,
			BootSet: 10e6,
			Read:    40e6,
			Each: []nodeRun{
				{
					Link: link,
					Taken: taken{
						Memory:   memory,
						Control:  control,
						Messages: 1,
						Received: map[string]int64{"peer": 10e6},
					},
				},
			},
		}
	}
	discarded := run(100, 40e6, 90e6, 90_000)
	discarded.Discarded = true
	other := run(200, 40e6, 90e6, 90_000)
	other.System = "prefetch"
	r := &report{
		BootSet: 10e6,
		Read:    40e6,
		Runs: []stormRun{
			run(1, 13e6, 30e6, 0),
			run(10, 15e6, 36e6, 9000),
			run(40, 13e6, 31e6, 25_000),
			discarded,
			other,
		},
	}
	for want, got := range map[string]target{
		"bytes on the wire of one boot, to bytes that it reads, N=10, the worst of 1, 10, 40": r.wireTarget(),
		"messages with the tracker, for each node, in KB, N=40, the worst of 1, 10, 40":       r.controlTarget(),
		"memory of the block daemon beside the boot pack that it keeps, the most of all nodes, in MB, N=10, the " +
			"worst of 1, 10, 40": r.memoryTarget(),
	} {
		if row := got.row(); got.what != want || !strings.HasPrefix(row[3], "**missed by ") {
			t.Errorf("got %q, want %q, missed", row, want)
		}
	}
	if got := r.wireTarget().got; got != 0.375 {
		t.Errorf("got %g", got)
	}
	if got := (&report{}).memoryTarget(); got.ok ||
		got.what != "memory of the block daemon beside the boot pack that it keeps, the most of all nodes, in MB, "+
			"each N" {
		t.Errorf("of nothing: %+v", got)
	}
}

// A node that had not received all of its boot pack when its memory was looked at keeps no more of it than that.
func TestMemoryIsBesideWhatCame(t *testing.T) {
	r := &report{BootSet: 9e6, Pack: 12e6}
	for came, want := range map[int64]float64{9e6: 23e6, 14e6: 20e6} {
		n := nodeRun{Taken: taken{Memory: 32e6, Received: map[string]int64{"peer": came - 1e6, "server": 1e6}}}
		if got := r.besidePack(n); got != want {
			t.Errorf("%d bytes came: %.0f beside them, want %.0f", came, got, want)
		}
	}
	if got := r.besidePack(nodeRun{}); got != 0 {
		t.Errorf("not measured: %.0f", got)
	}
}
