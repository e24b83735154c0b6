package storm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pando/internal/bench"
	"pando/internal/sim"
)

// writeSim writes the valid storms of complete Pando and of unicast, with which the simulator is compared.
func (s *Storm) writeSim() error {
	var out sim.Lab
	for _, file := range s.from {
		r, err := bench.ReadJSON[report](file)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("there is no %s", file)
		}
		out.Date = r.Date.Truncate(24 * time.Hour)
		out.Storms = append(out.Storms, r.labStorms()...)
	}
	if len(out.Storms) == 0 {
		return errors.New(
			"--sim: no run with peers or by unicast counts, of a boot pack whose number of pieces was noted",
		)
	}
	return bench.SaveJSON(s.sim, out)
}

// workMost is the largest share of a storm that its nodes may work for, because the simulator does not model
// processors.
const workMost = 0.1

// labStorms converts the runs that count to the simulator's form.
func (r *report) labStorms() (out []sim.LabStorm) {
	for _, x := range slices.Concat(r.Runs, r.WithK) {
		work := x.mean(func(n nodeRun) float64 { return n.Taken.CPU })
		if x.Discarded || r.Pieces == 0 || x.System != bestName() && x.System != unicastName || work > workMost*x.Last {
			continue
		}
		out = append(out, x.labStorm(r.Pieces))
	}
	return out
}

// labStorm converts a run to the simulator's form. pieces is the number of pieces of its boot pack.
func (r stormRun) labStorm(pieces int) sim.LabStorm {
	l := sim.LabStorm{
		Nodes:      r.Nodes,
		NodeLink:   r.NodeRate,
		ServerLink: r.ServerRate,
		W:          r.BootSet,
		Pieces:     pieces,
		Unicast:    r.System == unicastName,
		Think:      seconds(r.Think * r.Unit),
		Last:       seconds(r.Last),
		Server:     int64(r.total("server")),
	}
	if r.K != nil {
		l.Pieces, l.K, l.LastK, l.Median = r.K.Pieces, r.K.Bytes, seconds(r.K.Last), seconds(r.Median)
		l.Passed = r.passes()
	}
	return l
}

// unicastName is the name of the step that has everything except peers.
const unicastName = "prefetch"

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
