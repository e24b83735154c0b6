package sim

import "testing"

// With any fault, every live node gets its boot set, and not much later.
func TestFaults(t *testing.T) {
	unit := set(200, 237).Unit()
	for name, x := range map[string]struct {
		faults Faults
		most   float64 // W/B
		server float64 // W
	}{
		"a fifth of the peers is killed": {Faults{Kill: 0.2, KillAt: unit / 2}, 1.6, 1.3},
		"a fifth loses its power":        {Faults{Kill: 0.2, KillAt: unit / 2, Silent: true}, 1.6, 1.3},
		"ten peers send wrong bytes":     {Faults{Wrong: 10}, 1.9, 1.4},
		"ten peers break off":            {Faults{Short: 10}, 1.9, 1.5},
		"a fifth of the peers break off": {Faults{Short: 20}, 9, 9},
		"ten peers are slow":             {Faults{Slow: 10}, 1.9, 1.4},
		"a quarter comes late":           {Faults{Delayed: 50, DelayedBy: 2 * unit}, 3.2, 1.3},
		"all trackers are lost":          {Faults{Tracker: unit / 2}, 20, 15},
		"everything at once": {Faults{Kill: 0.1, KillAt: unit / 2, Wrong: 5, Slow: 5, Delayed: 20,
			DelayedBy: unit, Tracker: unit * 8 / 10}, 40, 40},
	} {
		t.Run(name, func(t *testing.T) {
			c := set(200, 237)
			c.Faults = x.faults
			r := run(t, c)
			times(t, c, "last", r.Last, x.most)
			amplification(t, c, r, x.server)
			if x.faults.Wrong > 0 && x.faults.Tracker == 0 && r.Banned != x.faults.Wrong {
				t.Errorf("%d banned for all, want %d", r.Banned, x.faults.Wrong)
			}
			if plain := float64(c.Nodes); r.Last.Seconds() > plain/2*unit.Seconds() {
				t.Error("slower than half of plain unicast")
			}
		})
	}
}

// Two servers share the nodes. Each has its own tracker.
func TestTwoServers(t *testing.T) {
	c := set(200, 237)
	c.Servers = 2
	r := run(t, c)
	times(t, c, "last", r.Last, 1.30)
	amplification(t, c, r, 2.6)
}

// The few peers from other subnets connect the subnets, so that not every subnet needs its own copy.
func TestSubnetsShareOneCopy(t *testing.T) {
	c := set(200, 237)
	c.Subnet = 25
	r := run(t, c)
	times(t, c, "last", r.Last, 1.45)
	amplification(t, c, r, 1.3)
}
