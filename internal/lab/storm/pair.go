package storm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
)

// change is what the second run of a pair has and the first has not. Of zero nothing is changed.
type change struct {
	// the programs of --against made the first run, and those beside this one the second
	Build bool          `json:"build,omitempty"`
	Delay time.Duration `json:"delay,omitempty"` // of a round trip more, between any two
	Cold  bool          `json:"cold,omitempty"`  // what the server sends is on its disk, and not in its memory
}

// String is for people.
func (c change) String() string {
	var out []string
	if c.Build {
		out = append(out, "this build, after the other one")
	}
	if c.Delay > 0 {
		out = append(out, "a round trip is "+c.Delay.String()+" longer")
	}
	if c.Cold {
		out = append(out, "the server's files are not in its memory")
	}
	return strings.Join(out, "; ")
}

// checkChange completes the change and says what is wrong with --against, --delay and --cold.
func (s *Storm) checkChange() error {
	s.change.Build = s.against != ""
	if s.change.Build {
		for _, name := range []string{"pando", "pando-init"} {
			if _, err := os.Stat(filepath.Join(s.against, name)); err != nil {
				return fmt.Errorf("--against: %w", err)
			}
		}
	}
	switch {
	case s.change.Build && s.wantsRival():
		return errors.New("--against compares builds of Pando; choose among its own systems with --systems")
	case s.change.Delay < 0 || s.change.Delay > time.Second:
		return fmt.Errorf("--delay %s: want up to 1s", s.change.Delay)
	case s.change != change{} && (len(s.faults) > 0 || s.guests > 0 || s.tell):
		return errors.New("--against, --delay and --cold change storms, without --fault, --guests or --tell")
	}
	return nil
}

// planPairs lists the runs when something is changed: each without it and then with it, on links that are made alike.
func (s *Storm) planPairs() (out []job) {
	for _, j := range s.planStorms() {
		j.Pair = true
		changed := j
		changed.Change = s.change
		if s.change.Build {
			j.Bin, j.Release = s.against, s.againstRelease
		}
		out = append(out, j, changed)
	}
	return out
}

// programs is where the programs of a run are.
func (s *Storm) programs() string { return cmp.Or(s.job.Bin, s.Bin) }

// alter makes the change of a run, when all that serves it is started.
func (s *Storm) alter(ctx context.Context, m *testbed.Material, j job) error {
	if s.change.Delay > 0 {
		s.Star.Delay(j.Change.Delay)
	}
	if !j.Change.Cold {
		return nil
	}
	if err := forgetFiles(ctx); err != nil || !slices.Contains(standIn, j.System) {
		return err
	}
	return m.Remember(ctx)
}

// standIn are the systems whose nodes take a part of the root from this machine's own copy, which is in memory:
// what it stands for they get another way.
var standIn = []string{"nfs", "nbd-squash"}

// forgetFiles has the kernel forget what it has in memory of any file: whatever serves a storm, and through
// whatever mounts. Written data come to disk first, since only what is there is forgotten.
func forgetFiles(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o200)
}

var pairHeads = bench.Row{"system", "N", "B", "changed", "t_last, W/(eta B)", "without", "ratio"}

// pairRows is a line for each run with a change, beside the one without that went before.
func (r *report) pairRows() (out []bench.Row) {
	plain := map[kind]stormRun{}
	for _, x := range r.Pairs {
		k := x.kind()
		if x.Change == (change{}) {
			plain[k] = x
			continue
		}
		line := bench.Row{
			x.System,
			fmt.Sprint(x.Nodes),
			x.links(),
			x.Change.String(),
			fmt.Sprintf("%.2f", x.units()),
			"-",
			"-",
		}
		switch one, ok := plain[k]; {
		case x.Discarded:
			line[4] = "discarded: " + x.Load.TooBusy()
		case ok && !one.Discarded:
			line[5], line[6] = fmt.Sprintf("%.2f", one.units()), fmt.Sprintf("%.2f", x.units()/one.units())
		}
		out = append(out, line)
	}
	return out
}
