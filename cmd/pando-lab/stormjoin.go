package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// joinAll adds the results of other labs to this one's.
func (s *storm) joinAll() error {
	file := filepath.Join(s.dir, "storm.json")
	rep, err := readReport(file)
	if err != nil {
		return fmt.Errorf("--join: %w", err)
	}
	for _, from := range s.join {
		other, err := readReport(from)
		if err == nil {
			err = rep.join(other)
		}
		if err != nil {
			return fmt.Errorf("--join %s: %w", from, err)
		}
	}
	if err := rep.save(file); err != nil {
		return err
	}
	s.say("%s\nRaw data: %s", rep.table(s.busy), file)
	return nil
}

// join adds what another report has and this one has not. Results can be joined that may stand in one table: of the same boots, pack and machine.
func (r *report) join(other *report) error {
	switch {
	case r.Version != other.Version || r.BootSet != other.BootSet || r.Until != other.Until:
		return fmt.Errorf("it is of %s until %q with a boot pack of %d bytes, and storm.json of %s until %q with one of %d: measure with a copy of the same --dir",
			other.Version, other.Until, other.BootSet, r.Version, r.Until, r.BootSet)
	case r.Machine != other.Machine:
		return fmt.Errorf("it was measured on another machine (%s), and storm.json on %s", other.Machine, r.Machine)
	}
	if len(other.Guests) > 0 {
		return errors.New("it has emulated machines, whose processors are what they wait for: those are measured by themselves")
	}
	r.markPairs()
	other.markPairs()
	for _, x := range slices.Concat(other.storms(), other.Failed) {
		if !r.knows(x) {
			r.add(x)
		}
	}
	for _, line := range strings.Split(other.Command, "\n") {
		if !slices.Contains(strings.Split(r.Command, "\n"), line) {
			r.Command += "\n" + line
		}
	}
	if other.Date.After(r.Date) {
		r.Date = other.Date
	}
	return nil
}

// markPairs notes of runs of pairs that they are, which is not kept with them.
func (r *report) markPairs() {
	for i := range r.Pairs {
		r.Pairs[i].Pair = true
	}
}

// knows tells whether a run is there, or a later one that took its place. A lab makes one run at a time, and one of another lab begins at another nanosecond.
func (r *report) knows(x stormRun) bool {
	return slices.ContainsFunc(slices.Concat(r.storms(), r.Failed), func(y stormRun) bool {
		same := y.Began.Equal(x.Began) && y.System == x.System && y.Nodes == x.Nodes
		return same || y.Pair == x.Pair && (y.K == nil) == (x.K == nil) && y.replaces(x) && y.Began.After(x.Began)
	})
}

// over is when its last node had booted.
func (r stormRun) over() time.Time {
	return r.Began.Add(time.Duration(r.Last * float64(time.Second)))
}

// besideText says how many storms went on while others did, in labs of their own; "": none.
func (r *report) besideText() string {
	beside, busiest := 0, 0.0
	for i, x := range r.Runs {
		if slices.ContainsFunc(slices.Delete(slices.Clone(r.Runs), i, i+1), func(y stormRun) bool { return x.Began.Before(y.over()) && y.Began.Before(x.over()) }) {
			beside, busiest = beside+1, max(busiest, x.Load.Busy)
		}
	}
	if beside == 0 {
		return ""
	}
	return fmt.Sprintf("\n%d of these storms went on beside others, each in a lab with links, a server and nodes of its own, on the same processors, which were at most %.0f %% busy; the column \"machine\" is of all that ran.\n",
		beside, busiest*100)
}
