package main

import (
	"testing"
	"time"
)

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
