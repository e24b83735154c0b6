package swarm

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
)

// away is how long the server is away in mid-storm.
func away() time.Duration {
	if os.Getenv("PANDO_FULL") == "" {
		return 30 * time.Second
	}
	return time.Minute
}

// The server is killed in the middle of a storm, and started again half a minute later.
func TestServerAwayInAStorm(t *testing.T) {
	f := newFleet(t, 8)
	f.serverAway(f.site.Kill, func() error { return f.site.Start(t.Context()) })
}

// The server stands still for a minute: its machine goes on to take connections, and nobody answers.
func TestServerStandsStillInAStorm(t *testing.T) {
	if os.Getenv("PANDO_FULL") == "" {
		t.Skip("takes a minute: PANDO_FULL is not set (make test-full sets it)")
	}
	f := newFleet(t, 8)
	f.serverAway(
		func() error { return f.site.Signal(unix.SIGSTOP) },
		func() error { return f.site.Signal(unix.SIGCONT) },
	)
}

// serverAway has a storm in which the server is away. Every node completes, each byte right; whoever missed the
// server, or its tracker, tells that it was away, and that it is back.
func (f *fleet) serverAway(gone, back func() error) {
	f.t.Helper()
	begun := time.Now()
	nodes := f.together(numbers(8), func([]*node) {
		for f.sent() < f.w()/2 {
			time.Sleep(10 * time.Millisecond) // for the processors' sake; the link goes on
		}
		f.check(gone())
		time.Sleep(away())
		f.check(back())
	})
	if took := time.Since(begun); took < away() {
		f.t.Errorf("all had booted after %s, before the server was back", took)
	}
	missed := 0
	for _, n := range nodes {
		st := n.status(func(st blockapi.Status) bool {
			return told(st, blockapi.ServerDown, "") == told(st, blockapi.ServerUp, "") &&
				told(st, blockapi.TrackerLost, "") == told(st, blockapi.TrackerUp, "")
		})
		if told(st, blockapi.ServerDown, "") && told(st, blockapi.TrackerLost, "") {
			missed++
		}
	}
	f.t.Logf(
		"%d of %d nodes missed the server; all had booted after %s",
		missed,
		len(nodes),
		time.Since(begun).Round(time.Millisecond),
	)
	if missed == 0 {
		f.t.Error("no node tells that the server was away")
	}
}
