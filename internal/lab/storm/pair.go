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

// change is the difference between the two runs of a pair. The zero value changes nothing.
type change struct {
	// the first run uses the programs of --against, the second those beside this program
	Build bool          `json:"build,omitempty"`
	Delay time.Duration `json:"delay,omitempty"` // added to each round trip
	Cold  bool          `json:"cold,omitempty"`  // the server reads files from its disk, not from memory
}

// String describes the change for people.
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

// checkChange completes the change, and returns an error for wrong --against, --delay or --cold.
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

// planPairs lists the runs of pairs: each without the change and then with it, on links with the same rates.
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

// programs returns the directory of a run's programs.
func (s *Storm) programs() string { return cmp.Or(s.job.Bin, s.Bin) }

// alter makes the change of a run, after its servers were started.
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

// standIn are the systems whose nodes read a part of the root from this machine's own copy. In reality they get that
// part in another way, so alter reads the copy back into memory.
var standIn = []string{"nfs", "nbd-squash"}

// forgetFiles empties the kernel's page cache, including that of files which a storm's servers use. It first writes
// modified pages to disk, because only clean pages can be dropped.
func forgetFiles(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("1"), 0o200)
}

var pairHeads = bench.Row{"system", "N", "B", "changed", "t_last, W/(eta B)", "without", "ratio"}

// pairRows returns a line for each run with a change, compared with the run without it that was made before.
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
