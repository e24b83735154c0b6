package main

import (
	"slices"
	"testing"
	"time"
)

// Beside the command that measured stands how long it took, and those before keep theirs.
func TestCommandsHaveTheirTime(t *testing.T) {
	r := &report{Command: "pando-lab storm"}
	r.took(61 * time.Second)
	r.Command += "\npando-lab storm --add"
	r.took(time.Second)
	if want := "pando-lab storm  # 1m1s\npando-lab storm --add  # 1s"; r.Command != want {
		t.Errorf("got %q, want %q", r.Command, want)
	}
}

// A command that was given twice stands where it was given last, and each with its time.
func TestCommandsStandOnce(t *testing.T) {
	r := &report{
		Command: "pando-lab storm\npando-lab storm --add --nodes 10\npando-lab storm --add --nodes 40  # " +
			"5s\npando-lab storm --add --nodes 10  # 1m1s",
	}
	want := []string{
		"pando-lab storm",
		"pando-lab storm --add --nodes 40  # 5s",
		"pando-lab storm --add --nodes 10  # 1m1s",
	}
	if got := r.commands(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A run that took the place of another was made, though there are no more of them.
func TestRunsSince(t *testing.T) {
	begin := time.Now()
	r := &report{Faults: []stormRun{{Began: begin.Add(-time.Second)}}}
	if r.since(begin) {
		t.Error("a run of before is new")
	}
	r.Faults[0].Began = begin.Add(time.Second)
	if !r.since(begin) {
		t.Error("a new run is not")
	}
}

// A system's time is that of all its runs, and what is left is said, too.
func TestClock(t *testing.T) {
	c := newClock()
	c.add("peers", time.Minute)
	c.add("nbd", 10*time.Second)
	c.add("peers", 30*time.Second)
	if got, want := c.text(c.began.Add(2*time.Minute)), "Took 2m0s: peers 1m30s, nbd 10s, before and after "+
		"20s."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
