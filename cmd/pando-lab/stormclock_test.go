package main

import (
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

// A system's time is that of all its runs, and what is left is said, too.
func TestClock(t *testing.T) {
	c := newClock()
	c.add("peers", time.Minute)
	c.add("nbd", 10*time.Second)
	c.add("peers", 30*time.Second)
	if got, want := c.text(c.began.Add(2*time.Minute)), "Took 2m0s: peers 1m30s, nbd 10s, before and after 20s."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
