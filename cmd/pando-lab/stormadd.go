package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// machineGlue stands between the machines that made the runs of one report, in the order in which they did.
const machineGlue = "; then "

// results are those that were measured before, when more are to be added.
func (s *storm) results(m *material) (*report, error) {
	now := newReport(m, s)
	if !s.add {
		return now, nil
	}
	rep, err := readReport(filepath.Join(s.dir, "storm.json"))
	if err == nil {
		rep.with(now.Machine)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return now, nil
	case err != nil:
		return nil, err
	case rep.Version != now.Version || rep.BootSet != now.BootSet && !s.anyPack():
		return nil, fmt.Errorf(
			"--add: the results are of another version, or another boot pack: %s of %d bytes; of such a pack "+
				"rivals, --fault all and --k can be added",
			rep.Version,
			rep.BootSet,
		)
	}
	rep.Command += "\n" + now.Command
	if rep.BootSet != now.BootSet {
		rep.Date = now.Date
		if len(s.faults) > 0 {
			rep.FaultSet = now.BootSet
		}
		return rep, nil
	}
	rep.Date, rep.K, rep.Pieces, rep.Pack, rep.Unseen = now.Date, now.K, now.Pieces, now.Pack, now.Unseen
	return rep, nil
}

// anyPack tells whether what is to be measured may be of another boot pack than the rest: all faults are compared
// with each other only, storms with K with what is simulated of them, and rivals have no boot pack, so that W is a
// unit to them.
func (s *storm) anyPack() bool {
	return len(s.faults) == len(faultNames())-1 || s.k || s.onlyRivals()
}

// onlyRivals reports whether all that is to be measured are storms of systems that are not Pando's.
func (s *storm) onlyRivals() bool {
	own := slices.ContainsFunc(s.wanted, func(name string) bool { return slices.Contains(names(own()), name) })
	return !own && len(s.faults) == 0 && s.guests == 0 && s.change == change{}
}

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

// join adds what another report has and this one has not, of the same version until the same stage. Of another boot
// pack storms of Pando's own systems are left out: they would stand in one table with those of this one.
func (r *report) join(other *report) error {
	if r.Version != other.Version || r.Until != other.Until {
		return fmt.Errorf(
			"it is of %s until %q, and storm.json of %s until %q",
			other.Version,
			other.Until,
			r.Version,
			r.Until,
		)
	}
	r.markPairs()
	other.markPairs()
	samePack, takesFaults := r.BootSet == other.BootSet, r.takesFaults(other)
	for _, x := range slices.Concat(other.storms(), other.Failed) {
		switch {
		case x.Fault != "" && !takesFaults, !samePack && x.plain() && slices.Contains(names(own()), x.System):
		case !r.knows(x):
			r.add(x)
		}
	}
	for _, x := range other.Guests {
		if !slices.ContainsFunc(r.Guests, func(y guestRun) bool {
			return y.System == x.System && y.Guests == x.Guests && y.Rate == x.Rate && y.Skew == x.Skew
		}) {
			r.addGuests(x)
		}
	}
	r.with(other.Machine)
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

// takesFaults tells whether storms with faults of another report may stand beside those that are here, which are
// compared with each other and so of one boot pack. Without any, they are of the other's.
func (r *report) takesFaults(other *report) bool {
	of := cmp.Or(other.FaultSet, other.BootSet)
	if len(r.Faults) == 0 && len(other.Faults) > 0 && of != r.BootSet {
		r.FaultSet = of
	}
	return of == cmp.Or(r.FaultSet, r.BootSet)
}

// plain tells whether a run is a storm like most, in which nothing goes wrong or is changed, and of which all nodes
// have K.
func (r stormRun) plain() bool { return r.Fault == "" && !r.Pair && r.K == nil }

// with notes that runs were made on a machine, too.
func (r *report) with(machines string) {
	for _, m := range strings.Split(machines, machineGlue) {
		if !slices.Contains(strings.Split(r.Machine, machineGlue), m) {
			r.Machine += machineGlue + m
		}
	}
}

// markPairs notes of runs of pairs that they are, which is not kept with them.
func (r *report) markPairs() {
	for i := range r.Pairs {
		r.Pairs[i].Pair = true
	}
}

// knows tells whether a run is there, or a later one that took its place. A lab makes one run at a time, and one of
// another lab begins at another nanosecond.
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
		if slices.ContainsFunc(
			slices.Delete(slices.Clone(r.Runs), i, i+1),
			func(y stormRun) bool { return x.Began.Before(y.over()) && y.Began.Before(x.over()) },
		) {
			beside, busiest = beside+1, max(busiest, x.Load.Busy)
		}
	}
	if beside == 0 {
		return ""
	}
	return fmt.Sprintf(
		"\n%d of these storms went on beside others, each in a lab with links, a server and nodes of its own, on "+
			"the same processors, which were at most %.0f %% busy; the column \"machine\" is of all that ran.\n",
		beside,
		busiest*100,
	)
}
