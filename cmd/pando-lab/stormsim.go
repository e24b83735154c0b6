package main

import (
	"encoding/json"
	"errors"
	"time"

	"pando/internal/sim"
	"pando/internal/store"
)

// writeSim writes the storms that the simulator is compared with: those of all of Pando, and of unicast, that count.
func (s *storm) writeSim() error {
	var out sim.Lab
	for _, file := range s.from {
		r, err := readReport(file)
		if err != nil {
			return err
		}
		out.Date = r.Date.Truncate(24 * time.Hour)
		out.Storms = append(out.Storms, r.labStorms()...)
	}
	if len(out.Storms) == 0 {
		return errors.New("--sim: no run with peers or by unicast counts, of a boot pack whose number of pieces was noted")
	}
	b, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		return err
	}
	return store.WriteFile(s.sim, append(b, '\n'), 0o644)
}

// workMost is the part of a storm that its nodes may work for: the simulator leaves processors out. One desktop at 70 Mb/s, which takes 1.49 W/(eta B), works
// for 13 % of that; at 8 Mb/s it takes 1.02.
const workMost = 0.1

// labStorms are the runs that count, in the simulator's terms.
func (r *report) labStorms() (out []sim.LabStorm) {
	for _, x := range r.Runs {
		unicast := x.System == unicastName
		work := x.mean(func(n nodeRun) float64 { return n.Taken.CPU })
		if x.Discarded || r.Pieces == 0 || x.System != bestName() && !unicast || work > workMost*x.Last {
			continue
		}
		out = append(out, sim.LabStorm{Nodes: x.Nodes, NodeLink: x.NodeRate, ServerLink: x.ServerRate, W: x.BootSet, Pieces: r.Pieces, Unicast: unicast,
			Think: seconds(x.Think * x.Unit), Last: seconds(x.Last), Server: int64(x.total("server"))})
	}
	return out
}

// unicastName is the step that has all but peers.
const unicastName = "prefetch"

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
