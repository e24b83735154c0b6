package swarm

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
)

// away returns how long the server is down during a storm.
func away() time.Duration {
	if os.Getenv("PANDO_FULL") == "" {
		return 30 * time.Second
	}
	return time.Minute
}

// The server is killed during a storm, and restarted half a minute later.
func TestServerAwayInAStorm(t *testing.T) {
	f := newFleet(t, 8)
	f.serverAway(f.site.Kill, func() error { return f.site.Start(t.Context()) })
}

// The server is stopped for a minute: its kernel accepts connections, and no process answers.
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

// serverAway makes the server unavailable during a storm. Every node completes with the right bytes. Nodes that noticed
// the outage of server or tracker report it, and its end.
func (f *fleet) serverAway(gone, back func() error) {
	f.t.Helper()
	begun := time.Now()
	nodes := f.together(numbers(8), func([]*node) {
		for f.sent() < f.w()/2 {
			time.Sleep(10 * time.Millisecond) // saves processor time; the transfer continues
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
