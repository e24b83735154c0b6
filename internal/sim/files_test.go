package sim

import (
	"testing"
	"time"
)

// whole returns a storm of whole boots: with bootstrap files and demand objects.
func whole(nodes int) Config {
	c := set(nodes, 237)
	c.Reads, c.Files, c.Demand, c.DemandSize = true, 38<<10, 12, 40<<10
	return c
}

// Bootstrap files and demand objects spread like pieces: the server sends a few copies of each, for few messages.
func TestFilesAndDemandObjectsAreShared(t *testing.T) {
	for _, x := range []struct {
		nodes         int
		most, server  float64
		files         float64 // copies
		starts, finds float64 // requests of a node
	}{{1, 1.1, 1.1, 1, 1, 0}, {40, 1.35, 1.25, 8, 1.5, 9}, {200, 1.5, 1.3, 16, 1.5, 9}, {1000, 1.65, 1.4, 32, 1.5, 9}} {
		c := whole(x.nodes)
		r := run(t, c)
		copies, starts, finds := float64(
			r.FileBytes,
		)/float64(
			c.Files,
		), float64(
			r.Starts,
		)/float64(
			x.nodes,
		), float64(
			r.Finds,
		)/float64(
			x.nodes,
		)
		t.Logf(
			"%.1f copies of the files; a node asks %.1f times who has them, and %.1f times for demand objects, of %d",
			copies,
			starts,
			finds,
			c.Demand,
		)
		times(t, c, "last", r.Last, x.most)
		amplification(t, c, r, x.server)
		if copies > x.files || starts > x.starts || finds > x.finds {
			t.Errorf(
				"%d nodes: want no more than %.1f copies, %.1f and %.1f questions",
				x.nodes,
				x.files,
				x.starts,
				x.finds,
			)
		}
		if control := r.Control / int64(c.Nodes); control > 20_000 {
			t.Errorf("%d nodes: %d bytes of control for each", c.Nodes, control)
		}
	}
}

// Nodes that read the same object at the same moment, before they know peers, all get it from the server. The tracker
// charges these bytes to the uplink. Otherwise grants would time out behind them, and be granted again.
func TestNodesWithoutPeers(t *testing.T) {
	c := whole(200)
	c.Files = 0
	extra := float64(c.Nodes) * float64(c.DemandSize) / float64(c.W)
	r := run(t, c)
	times(t, c, "last", r.Last, 1.6+extra)
	amplification(t, c, r, 1.5+extra)
}

// Faults of peers affect bootstrap files and demand objects too, and every node still boots. Banned nodes get
// everything from the server; the object queue keeps them from delaying the others.
func TestWholeBootsWithFaults(t *testing.T) {
	unit := whole(1).Unit()
	for name, x := range map[string]struct {
		change       func(*Config)
		median, last float64 // W/B
	}{
		"a fifth is killed": {func(c *Config) { c.Faults = Faults{Kill: 0.2, KillAt: unit / 2} },
			1.7, 1.8},
		"wrong bytes":         {func(c *Config) { c.Faults = Faults{Wrong: 10} }, 2, 11},
		"they break off":      {func(c *Config) { c.Faults = Faults{Short: 10} }, 1.9, 2},
		"slow ones":           {func(c *Config) { c.Faults = Faults{Slow: 10} }, 2.1, 2.3},
		"nobody reaches some": {func(c *Config) { c.Faults = Faults{Closed: 10} }, 1.7, 1.9},
		"some reach nobody":   {func(c *Config) { c.Faults = Faults{Alone: 2} }, 1.7, 5},
		"they come later": {func(c *Config) { c.Faults = Faults{Delayed: 100, DelayedBy: unit / 2} },
			2.1, 2.3},
		"the tracker is lost": {func(c *Config) { c.Faults = Faults{Tracker: unit / 2} }, 20, 20},
		"it is lost while boots stand in line": {
			func(c *Config) { c.Faults = Faults{Tracker: 30 * time.Millisecond} }, 206, 206},
		"there never was a tracker": { // the files come from the server too
			func(c *Config) { c.Faults = Faults{Tracker: 1} }, 206, 206},
		"racks": {func(c *Config) { c.Places, c.ServerLink = 8, 1e9 }, 1.6, 2.2},
		"word is late": {func(c *Config) {
			c.Nodes, c.NodeLink, c.ServerLink, c.Delay = 40, 300e3, 300e3,
				time.Second
		}, 2, 2},
		"unicast": {func(c *Config) { c.Unicast, c.Nodes = true, 20 }, 21, 21},
	} {
		t.Run(name, func(t *testing.T) {
			c := whole(200)
			x.change(&c)
			r := run(t, c)
			times(t, c, "last", r.Last, x.last)
			times(t, c, "median", r.Median, x.median)
			if c.Faults.Wrong > 0 && r.Banned == 0 {
				t.Error("nobody was banned")
			}
		})
	}
}

// A boot cannot have bootstrap files of negative size, or demand objects without bytes.
func TestImpossibleFiles(t *testing.T) {
	for _, change := range []func(*Config){func(c *Config) { c.Files = -1 }, func(c *Config) { c.Demand = -1 },
		func(c *Config) { c.DemandSize = 0 }} {
		c := whole(1)
		if change(&c); func() error { _, err := Run(c); return err }() == nil {
			t.Errorf("%+v", c)
		}
	}
}
