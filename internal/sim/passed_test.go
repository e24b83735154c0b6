package sim

import (
	"testing"
	"time"
)

// From power-on, with K from nodes that have begun: forty nodes on equal links take at most 5.5 times as long as one,
// and the server sends at most 5.5 times what one node needs; two hundred 7.5. Without, it is about one load each.
func TestKPassedOn(t *testing.T) {
	storm := func(nodes int, server int64, passed bool) Result {
		c := LabStorm{Nodes: nodes, NodeLink: 20e6, ServerLink: server, W: 9_200_000, Pieces: 106, K: 18e6,
			Think: 2 * time.Second}.Config()
		c.Passed, c.Start = passed, 200*time.Millisecond
		r, err := Run(c)
		if err != nil || r.Unfinished > 0 {
			t.Fatalf("%d nodes: %v, %d unfinished", nodes, err, r.Unfinished)
		}
		return r
	}
	for _, x := range []struct {
		nodes        int
		server       int64
		times, bytes float64
	}{{40, 20e6, 5.5, 5.5}, {200, 20e6, 7.5, 7.5}, {40, 200e6, 2.6, 28}, {200, 200e6, 4.5, 60}} {
		one, all, servers := storm(1, x.server, true), storm(x.nodes, x.server, true), storm(x.nodes, x.server, false)
		times := all.Last.Seconds() / one.Last.Seconds()
		bytes := float64(all.KBytes+all.ServerBytes) / float64(18_000_000+9_200_000)
		t.Logf("%d nodes, server %d Mb/s: last %.1f s = %.2f x one (%.1f s from servers), last K %.1f s, "+
			"server sent %.2f (K + W)", x.nodes, x.server/1e6,
			all.Last.Seconds(), times, servers.Last.Seconds(), all.LastK.Seconds(), bytes)
		if times > x.times || bytes > x.bytes {
			t.Errorf("want at most %.1f times one node, and %.1f (K + W)", x.times, x.bytes)
		}
	}
}
