package sim

import "testing"

// Racks that share within themselves are separate swarms: each costs one copy, and waits for no other rack.
func TestPlacesThatKeepToThemselves(t *testing.T) {
	for _, x := range []struct {
		nodes, places int
		serverLink    int64 // bits per second
		most, server  float64
	}{
		{40, 2, 100e6, 2.5, 2.1},
		{40, 8, 100e6, 8.8, 8.2},
		{40, 40, 100e6, 42, 41}, // each node is alone: plain unicast
		{200, 8, 1e9, 2, 10},
	} {
		c := set(x.nodes, 237)
		c.Reads, c.Places, c.ServerLink = true, x.places, x.serverLink
		r := run(t, c)
		times(t, c, "last", r.Last, x.most)
		amplification(t, c, r, x.server)
	}
}

// A node that no peer can reach costs the others its help. A node that can reach no peer costs the server a copy. No
// node waits for a piece that does not come.
func TestNodesThatPeersDoNotReach(t *testing.T) {
	for name, x := range map[string]struct {
		nodes        int
		faults       Faults
		most, server float64
	}{
		"one of forty is closed":      {40, Faults{Closed: 1}, 1.4, 1.1},
		"four of forty are closed":    {40, Faults{Closed: 4}, 1.8, 1.1},
		"ten of 200 are closed":       {200, Faults{Closed: 10}, 1.6, 1.1},
		"half of 200 are closed":      {200, Faults{Closed: 100}, 3.5, 2},
		"one of forty is alone":       {40, Faults{Alone: 1}, 2.9, 2.1},
		"four of forty are alone":     {40, Faults{Alone: 4}, 6, 5.2},
		"ten of 200 are alone":        {200, Faults{Alone: 10}, 13, 11.3},
		"some are closed, some alone": {200, Faults{Closed: 20, Alone: 5}, 8, 6.5},
	} {
		t.Run(name, func(t *testing.T) {
			c := set(x.nodes, 237)
			c.Reads, c.Faults = true, x.faults
			r := run(t, c)
			times(t, c, "last", r.Last, x.most)
			amplification(t, c, r, x.server)
			if r.Unfinished > 0 {
				t.Errorf("%d nodes never had their boot set", r.Unfinished)
			}
		})
	}
}
