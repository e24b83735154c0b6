package alone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Alone measures one node by itself on a link without a limit: the time from /init to the default target, with Pando
// and in other ways. The ways alternate, so that other load on the machine affects all of them.
type Alone struct {
	testbed.Testbed
	systems      []bench.System      // systems of which a recorded boot can be replayed
	kernelRivals []bench.KernelRival // for emulated machines
	runs         int                 // number of rounds
	command      string              // command line that repeats the measurement
	release      string              // release of Pando's programs

	all  []way
	ways []string // ways to measure
	wall bool     // an emulated machine uses real time

	replay  bool    // replay a recorded boot on this machine's processors, without an emulated machine
	work    float64 // processor time of a replayed boot, in seconds
	account *bench.Account
}

// way is one way to boot. Its function returns the time from /init to the default target in seconds.
type way struct {
	name, what string
	boot       func(context.Context, *Alone, *testbed.Material) (float64, error)
}

// ways returns all ways that can be measured. Pando's comes first in each round.
func ways(rivals []bench.KernelRival) []way {
	out := []way{{bench.PandoWay, "Pando with a boot pack, from its own firmware boot", bootPando}}
	for _, r := range rivals {
		out = append(
			out,
			way{
				r.Name,
				r.What,
				func(ctx context.Context, a *Alone, m *testbed.Material) (float64, error) {
					return a.bootRival(ctx, r, m)
				},
			},
		)
	}
	return out
}

// New parses the arguments of `pando-lab alone`.
func New(o bench.Others, args []string, stdout, stderr io.Writer) (*Alone, error) {
	a := &Alone{
		Testbed:      testbed.Testbed{Place: bench.Place{Out: stdout, Err: stderr}, Until: trace.Booted},
		systems:      append(slices.Clone(o.Systems), diskRoot()),
		kernelRivals: o.Kernel,
	}
	a.all = ways(a.kernelRivals)
	f := flag.NewFlagSet("pando-lab alone", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&a.Dir, "dir", "build/storm", "where everything is kept; that of `pando-lab storm` does")
	f.StringVar(&a.Data, "data", "", "the server's data directory (default: data below --dir)")
	f.StringVar(&a.Image, "image", "storm", "image in it, built if it is not there")
	f.StringVar(&a.Recipe, "recipe", "debian:bookworm", "recipe to build the image by")
	f.IntVar(&a.Memory, "memory", 1536, "MiB of the machine")
	f.IntVar(&a.runs, "runs", 5, "rounds: boots of each")
	f.BoolVar(
		&a.wall,
		"wall",
		false,
		"the clock of an emulated machine is the wall's, and does not count its instructions",
	)
	f.BoolVar(
		&a.replay,
		"replay",
		false,
		"no emulated machines: a recorded boot is replayed on this machine's own processors, on which it works "+
			"for as long as the disk's boot took by the clock of instructions; what brings its root has the "+
			"others; of pando, nbd-erofs and disk",
	)
	f.BoolVar(
		&a.Screen,
		"screen",
		false,
		"the machine has a graphics card, as a desktop wants; so has the one whose boots are recorded, if none are",
	)
	f.Func(
		"ways",
		"ways to boot, with commas (default all of "+strings.Join(a.wayNames(), ",")+")",
		bench.ListOf(&a.ways),
	)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	a.Given, a.command = bench.GivenFlags(f), bench.CommandLine("alone", args)
	if len(a.ways) == 0 {
		a.ways = a.wayNames()
	}
	err := a.Locate(f.Args())
	if err == nil {
		err = errors.Join(a.check(), a.checkReplay())
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab alone:", err)
	}
	return a, err
}

func (a *Alone) check() error {
	for _, w := range a.ways {
		if !slices.Contains(a.wayNames(), w) {
			return fmt.Errorf("way %q: there are %s", w, strings.Join(a.wayNames(), ", "))
		}
	}
	if a.runs < 1 {
		return fmt.Errorf("%d rounds", a.runs)
	}
	return nil
}

func (a *Alone) wayNames() (out []string) {
	for _, w := range a.all {
		out = append(out, w.name)
	}
	return out
}

// Measure runs the whole measurement. It leaves nothing running, even after an error.
func (a *Alone) Measure(ctx context.Context) (err error) {
	if a.release, err = bench.ReleaseOf(ctx, a.Bin); err != nil {
		return err
	}
	if err := a.Open(ctx, testkit.StarConfig{Prefix: "alone", Nodes: 1, Joined: a.replay}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	ready := a.ImageMaterial // only Pando needs to know what a boot reads
	if slices.Contains(a.ways, bench.PandoWay) || a.replay {
		ready = a.Material
	}
	m, err := ready(ctx)
	if err != nil {
		return err
	}
	if a.replay {
		if err := a.readyReplay(ctx, m); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, a.account.Close()) }()
		return a.rounds(ctx, m)
	}
	if err := a.Site.Close(); err != nil {
		return err
	}
	if err := a.Serve(ctx, "own"); err != nil {
		return err
	}
	if err := a.AdoptAll(ctx, a.kernelArgs()); err != nil {
		return err
	}
	return a.rounds(ctx, m)
}

// kernelArgs returns further kernel arguments for all ways.
func (a *Alone) kernelArgs() []string {
	if a.wall {
		return testkit.KernelArgs()
	}
	return testkit.CountedKernelArgs()
}

// clockName returns the name of the clock that boots are measured by.
func (a *Alone) clockName() string {
	switch {
	case a.replay:
		return byReplay
	case a.wall:
		return byWall
	}
	return byInstructions
}

// rounds boots every way once in each round, and saves the result after each boot.
func (a *Alone) rounds(ctx context.Context, m *testbed.Material) error {
	res := newResult(m, a.Image, a.command, a.clockName(), a.release)
	res.ways = a.printed()
	res.Work = a.work
	file := filepath.Join(a.Dir, res.file())
	for round := range a.runs {
		for _, w := range a.all {
			if !slices.Contains(a.ways, w.name) {
				continue
			}
			boot := w.boot
			if a.replay {
				boot = func(ctx context.Context, a *Alone, m *testbed.Material) (float64, error) {
					return a.replayed(ctx, m, w.name, res)
				}
			}
			seconds, err := boot(ctx, a, m)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", w.name, round+1, err)
			}
			a.Say("%d  %-20s %6.2f s", round+1, w.name, seconds)
			res.Seconds[w.name] = append(res.Seconds[w.name], seconds)
			if err := bench.SaveJSON(file, res); err != nil {
				return err
			}
		}
	}
	a.Say("\n%s\nRaw data: %s", res.table(), file)
	return nil
}

// printed returns the ways with their names in results.
func (a *Alone) printed() []way {
	if !a.replay {
		return a.all
	}
	out := slices.Clone(a.all)
	for i, w := range out {
		if s, ok := a.replayedSystem(w.name); ok {
			out[i].what = s.What
		}
	}
	return out
}
