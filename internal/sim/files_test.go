package sim

import (
	"testing"
	"time"
)

// whole is a storm of whole boots: with the files that they start with, and the objects that they read beside the
// pack.
func whole(nodes int) Config {
	c := set(nodes, 237)
	c.Reads, c.Files, c.Demand, c.DemandSize = true, 38<<10, 12, 40<<10
	return c
}

// What a boot starts with, and what it reads beside the pack, goes round as the pack does: the server sends a few
// copies of each and not one to every node. What is said for it is little.
func TestFilesAndDemandObjectsAreShared(t *testing.T) {
	for _, x := range []struct {
		nodes         int
		most, server  float64
		files         float64 // copies
		starts, finds float64 // questions of a node
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

// A crowd that reads the same object at the same moment, and knows nobody yet, has it from the server, each for
// himself. The tracker knows what that takes of the uplink: when it did not, what it granted stood behind it, was
// taken for lost and granted again, and 200 nodes took 6.8 W/B.
func TestNodesWithoutPeers(t *testing.T) {
	c := whole(200)
	c.Files = 0
	extra := float64(c.Nodes) * float64(c.DemandSize) / float64(c.W)
	r := run(t, c)
	times(t, c, "last", r.Last, 1.6+extra)
	amplification(t, c, r, 1.5+extra)
}

// What goes wrong with peers goes wrong with files and demand objects as well, and every node boots. Those that are
// banned, as they sent wrong bytes, have all from the server, and the others hardly notice: before they stood in
// line, ten of them had all others take 9 W/B.
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
		"there never was a tracker": { // and the files come from the server, too
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

// Boots whose files have no bytes, and objects of none, are no boots.
func TestImpossibleFiles(t *testing.T) {
	for _, change := range []func(*Config){func(c *Config) { c.Files = -1 }, func(c *Config) { c.Demand = -1 },
		func(c *Config) { c.DemandSize = 0 }} {
		c := whole(1)
		if change(&c); func() error { _, err := Run(c); return err }() == nil {
			t.Errorf("%+v", c)
		}
	}
}
