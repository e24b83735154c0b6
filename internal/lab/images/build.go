package images

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"pando/internal/bench"
)

// Build measures how long it takes to turn a tree into an image that nodes can boot. Pando alternates with programs
// that make a single file of the tree.
type Build struct {
	bench.Place
	recipe string
	tree   string // directory; "": the recipe installs one
	docker string // directory with Docker's programs; "": not compared
	runs   int
}

// NewBuild parses the arguments of `pando-lab build`.
func NewBuild(args []string, stdout, stderr io.Writer) (*Build, error) {
	b := &Build{Place: bench.Place{Out: stdout, Err: stderr}}
	f := flag.NewFlagSet("pando-lab build", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(
		&b.Dir,
		"dir",
		"build/build",
		"where the tree is installed and results are written; on a disk with some GB",
	)
	f.StringVar(
		&b.tree,
		"tree",
		"",
		"directory to build from, with a kernel in it (default: one is installed by --recipe); it gets one file more",
	)
	f.StringVar(&b.recipe, "recipe", "debian:bookworm", "recipe of the tree")
	f.StringVar(
		&b.docker,
		"docker",
		"",
		"directory with Docker's programs, of scripts/fetch-docker (default: no comparison with it)",
	)
	f.IntVar(&b.runs, "runs", 3, "how often each is measured")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := b.Locate(f.Args())
	if err == nil && b.runs < 1 {
		err = errors.New("--runs is at least 1")
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab build:", err)
	}
	return b, err
}

// buildRun is one measured run of one way.
type buildRun struct {
	Way    string        `json:"way"`
	Again  bool          `json:"again"`            // a second run after one file changed; results of the first are kept
	Before time.Duration `json:"before,omitempty"` // preparations, not part of Wall
	Wall   time.Duration `json:"wall"`             // until the result is durable
	CPU    time.Duration `json:"cpu"`              // of all its processes
	Memory int64         `json:"memory"`           // largest memory of one of its processes, in bytes
	Bytes  int64         `json:"bytes"`            // size of the result; for a second run the bytes that it wrote
}

// buildResult is what was measured.
type buildResult struct {
	Date       time.Time  `json:"date"`
	Processors int        `json:"processors"`
	Bytes      int64      `json:"bytes"` // sum of the tree's file sizes
	Files      int64      `json:"files"`
	Runs       []buildRun `json:"runs"`
}

// Measure runs `pando-lab build`.
func (b *Build) Measure(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: the tree has files of many owners")
	}
	if err := os.MkdirAll(b.Dir, 0o755); err != nil {
		return err
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	work, err := os.MkdirTemp(b.Dir, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := buildResult{Date: time.Now().UTC().Truncate(time.Second), Processors: runtime.NumCPU()}
	// this also reads the tree into the page cache, for all ways
	if r.Bytes, r.Files, err = bench.SizeOfTree(b.tree); err != nil {
		return err
	}
	b.Say("%s: %.0f MB in %d files; %d runs of each, in turns", b.tree, bench.MB(r.Bytes), r.Files, b.runs)
	var d *docker
	if b.docker != "" {
		if d, err = startDocker(ctx, b.docker, filepath.Join(work, "docker"), b.Err); err != nil {
			return err
		}
		defer d.stop()
	}
	for range b.runs {
		if err := b.round(ctx, work, buildWays(d), &r); err != nil {
			return err
		}
	}
	b.report(r)
	return bench.SaveJSON(filepath.Join(b.Dir, "build.json"), r)
}

// round measures each way twice: from nothing, and after a change.
func (b *Build) round(ctx context.Context, work string, ways []buildWay, r *buildResult) error {
	for _, way := range ways {
		dir := filepath.Join(work, way.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, again := range []bool{false, true} {
			if again {
				if err := b.change(); err != nil {
					return err
				}
			}
			run, err := b.run(ctx, way, dir, again)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			r.Runs = append(r.Runs, run)
			b.Say(
				"%-28s %-9s %7.1f s, %6.1f s of processors, %5.0f MB of memory, %6.1f MB written",
				way.name,
				map[bool]string{true: "again"}[again],
				run.Wall.Seconds(),
				run.CPU.Seconds(),
				bench.MB(run.Memory),
				bench.MB(run.Bytes),
			)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// change changes one file of the tree.
func (b *Build) change() error {
	return os.WriteFile(filepath.Join(b.tree, "etc", "pando-lab-build"), []byte(time.Now().String()+"\n"), 0o644)
}

// install makes a tree by the recipe. A build that stops after the tree step leaves the tree.
func (b *Build) install(ctx context.Context) error {
	if b.tree != "" {
		return nil
	}
	if b.tree = bench.InstalledTree(b.Dir); b.tree != "" {
		return nil
	}
	b.Say("Installing a tree by the recipe %s; this takes some minutes.", b.recipe)
	var err error
	b.tree, err = bench.InstallTree(ctx, b.Dir, b.recipe)
	return err
}

// median returns the median of one figure over the runs of a way.
func (r buildResult) median(way string, again bool, of func(buildRun) float64) float64 {
	var all []float64
	for _, run := range r.Runs {
		if run.Way == way && run.Again == again {
			all = append(all, of(run))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// ways returns the names of the measured ways, in order.
func (r buildResult) ways() (out []string) {
	for _, run := range r.Runs {
		if !slices.Contains(out, run.Way) {
			out = append(out, run.Way)
		}
	}
	return out
}

// count returns how often each way was measured.
func (r buildResult) count() (n int) {
	for _, run := range r.Runs {
		if run.Way == bench.PandoWay && !run.Again {
			n++
		}
	}
	return n
}

// report prints medians, and their ratios to Pando's.
func (b *Build) report(r buildResult) {
	b.Say(
		"\nMedians of %d runs; in brackets what it is to Pando's. Again: one file of the tree was changed.\n",
		r.count(),
	)
	b.Say("%s", bench.Table(r.rows()))
}

// rows returns a line for each way.
func (r buildResult) rows() []bench.Row {
	out := []bench.Row{{"what", "seconds", "again", "seconds of processors", "MB written", "again", "MB of memory"}}
	for _, way := range r.ways() {
		cell := func(again bool, of func(buildRun) float64) string {
			got, ours := r.median(way, again, of), r.median(bench.PandoWay, again, of)
			switch {
			case got != 0 && got < 0.1:
				return fmt.Sprintf("%.3f", got)
			case way == bench.PandoWay || ours < 0.1: // a ratio to almost 0 means nothing
				return fmt.Sprintf("%.1f", got)
			}
			return fmt.Sprintf("%.1f (%.2f)", got, got/ours)
		}
		wall := func(x buildRun) float64 { return x.Wall.Seconds() }
		cpu := func(x buildRun) float64 { return x.CPU.Seconds() }
		bytes := func(x buildRun) float64 { return bench.MB(x.Bytes) }
		memory := func(x buildRun) float64 { return bench.MB(x.Memory) }
		out = append(
			out,
			bench.Row{
				way,
				cell(false, wall),
				cell(true, wall),
				cell(false, cpu),
				cell(false, bytes),
				cell(true, bytes),
				cell(false, memory),
			},
		)
	}
	return out
}
