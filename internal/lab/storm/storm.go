package storm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Storm is one measurement: many nodes boot at once on slow links, and the time is compared with what the links allow.
type Storm struct {
	testbed.Testbed
	rivals       []bench.System
	kernelRivals []bench.KernelRival // for emulated machines

	nodes  []int
	wanted []string // systems to measure
	runs   int
	think  float64
	rate   testkit.Rate  // of a node's link; 0: the fastest that this machine can measure
	uplink testkit.Rate  // of the server's link; 0: like a node's
	busy   bool          // keep runs although the machine was too busy
	full   bool          // print the long form
	guests int           // number of emulated machines to boot instead of daemons
	skew   time.Duration // error of their clocks, alternately ahead and behind
	faults []string      // faults to cause, one in each run
	change change        // difference between the runs of a pair
	// directory of another build's programs, for the first run of each pair; "": none
	against        string
	againstRelease string
	release        string   // release of the programs beside this one
	k              bool     // nodes load kernel and initramfs first, as firmware does
	wrongKernels   int      // nodes that serve kernel and initramfs with wrong bytes
	kernelFrom     string   // who sends them: a fleet.KernelSource
	tell           bool     // the server knows the nodes, and they report their boots
	sim            string   // file to write for the simulator from results, instead of measuring
	from           []string // results that --sim reads

	command string // command line that repeats the measurement

	job     job // the present run
	disks   *cacheDisks
	served  bench.Served // a rival's server during a run
	account *bench.Account
	ready   func() // called before a run, when everything is ready; may be nil
	// called after all measurements, while the server runs; may be nil
	after func(ctx context.Context) error
}

// New parses the arguments of `pando-lab storm`.
func New(o bench.Others, args []string, stdout, stderr io.Writer) (*Storm, error) {
	s := &Storm{rivals: o.Systems, kernelRivals: o.Kernel}
	s.Place, s.Beside = bench.Place{Out: stdout, Err: stderr}, s.filesBeside
	f := flag.NewFlagSet("pando-lab storm", flag.ContinueOnError)
	f.SetOutput(stderr)
	s.addImageFlags(f)
	s.addFlags(f)
	s.addChangeFlags(f)
	s.addKindFlags(f)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	s.Given, s.command = bench.GivenFlags(f), bench.CommandLine("storm", args)
	err := s.Locate(f.Args())
	if err == nil {
		err = s.check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab storm:", err)
	}
	return s, err
}

// check completes the flags, and returns an error for wrong ones.
func (s *Storm) check() error {
	if len(s.nodes) == 0 {
		s.nodes = []int{1, 10, 40}
		if s.full {
			s.nodes = []int{1, 10, 40, 200}
		}
	}
	switch {
	case len(s.faults) > 0 || s.guests > 0 || s.sim != "":
		s.wanted = []string{bestName()}
	case len(s.wanted) == 0 && s.k:
		s.wanted = []string{bestName()}
	case len(s.wanted) == 0 && s.tell:
		s.wanted = names(own())
	case len(s.wanted) == 0 && s.against != "":
		s.wanted = withKSystems
	case len(s.wanted) == 0:
		s.wanted = names(s.systems())
	}
	for _, name := range s.wanted {
		if !slices.Contains(names(s.systems()), name) {
			return fmt.Errorf("system %q: there are %s", name, strings.Join(names(s.systems()), ", "))
		}
		if err := s.system(name).Check(s.Bin); err != nil {
			return err
		}
	}
	if err := errors.Join(s.checkFaults(), s.checkChange(), s.checkK()); err != nil {
		return err
	}
	switch {
	case s.guests < 0 || s.guests > mostGuests:
		return fmt.Errorf("--guests %d: want 1 to %d", s.guests, mostGuests)
	case s.Until != trace.Booted && len(s.Traces) > 0:
		return errors.New("--until: a trace that is named with --reads does not know marks")
	case s.tell && s.wantsRival():
		return errors.New("--tell: only Pando's own systems tell; choose among them with --systems")
	case s.runs < 1:
		return fmt.Errorf("%d runs", s.runs)
	case s.think < 0 || s.think > 1000:
		return fmt.Errorf("--think %g: it is a ratio, 0 for none", s.think)
	}
	return nil
}

// wantsRival reports whether a system that is not Pando's is measured.
func (s *Storm) wantsRival() bool {
	return slices.ContainsFunc(s.wanted, func(name string) bool { return !slices.Contains(names(own()), name) })
}

func numbersOf(out *[]int) func(string) error {
	return func(text string) error {
		for _, word := range strings.Split(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 || n > 10_000 {
				return fmt.Errorf("%q is not a number of nodes", word)
			}
			*out = append(*out, n)
		}
		return nil
	}
}

// Measure runs the whole measurement. It leaves nothing running, even after an error.
func (s *Storm) Measure(ctx context.Context) (err error) {
	if len(s.from) == 0 {
		s.from = []string{filepath.Join(s.Dir, "storm.json")}
	}
	if s.sim != "" {
		return s.writeSim()
	}
	if s.release, err = bench.ReleaseOf(ctx, s.Bin); err != nil {
		return err
	}
	err = s.Open(ctx, testkit.StarConfig{
		Prefix: "storm",
		Nodes:  slices.Max(s.nodes) + affected(slices.Max(s.nodes)),
		Wired:  s.change.Delay > 0,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if s.against != "" {
		if s.againstRelease, err = bench.ReleaseOf(ctx, s.against); err != nil {
			return err
		}
	}
	m, err := s.Material(ctx)
	if err != nil {
		return err
	}
	if s.account, err = bench.OpenAccount("/sys/fs/cgroup"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.account.Close()) }()
	if s.guests > 0 {
		return s.bootGuests(ctx, m)
	}
	return s.runAll(ctx, m)
}

// runAll makes all runs. It saves the results after each run.
func (s *Storm) runAll(ctx context.Context, m *testbed.Material) error {
	rep := newReport(m, s)
	if err := s.Star.Acquaint(); err != nil {
		return err
	}
	if s.k {
		if err := s.readyK(ctx, m); err != nil {
			return err
		}
	}
	done, failed := s.runPlan(ctx, m, rep)
	raw := filepath.Join(s.Dir, "storm.json")
	switch {
	case !done:
		return failed
	case len(s.faults) > 0:
		s.Say("\n%s\nRaw data: %s", bench.Table(append([]bench.Row{faultHeads}, rep.faultRows()...)), raw)
		return failed
	case s.k:
		s.Say("\n%s\nRaw data: %s", bench.Table(append([]bench.Row{withKHeads}, rep.withKRows(s.busy)...)), raw)
		return failed
	case s.change != change{}:
		s.Say("\n%s\nRaw data: %s", bench.Table(append([]bench.Row{pairHeads}, rep.pairRows()...)), raw)
		return failed
	}
	s.Say("\n%s\nRaw data: %s", rep.table(s.busy), raw)
	if s.tell {
		s.Say("The storm's page: pando serve --data %s --dhcp off, and its dashboard", s.DataDir())
	}
	if s.after != nil {
		if err := s.after(ctx); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

// runPlan makes the runs one after the other. A failed run that is kept does not stop the others. Any other failure
// does; done is false then.
func (s *Storm) runPlan(ctx context.Context, m *testbed.Material, rep *report) (done bool, failed error) {
	p := newPace(m.BootSet)
	for _, j := range s.plan() {
		err := s.runUntilGood(ctx, m, rep, p, j)
		if err == nil {
			continue
		}
		err = fmt.Errorf(
			"%s with %d nodes%s: %w",
			j.System,
			j.Nodes,
			stormRun{Fault: j.Fault, Change: j.Change}.circumstances(),
			err,
		)
		failed = errors.Join(failed, err)
		if kept := (*failedRun)(nil); !errors.As(err, &kept) {
			return false, failed
		}
	}
	return true, failed
}

// mostTries is how often a run is made if it is discarded each time.
const mostTries = 3

// runUntilGood makes a run, and repeats it if the machine was too busy, on slower links if the run itself was the load.
// Three kinds of runs are kept as failed: those in which nodes failed, a rival's that measured nothing, and those with
// a fault for which the machine was too busy each time.
func (s *Storm) runUntilGood(ctx context.Context, m *testbed.Material, rep *report, p *pace, j job) error {
	for range mostTries {
		s.choose(p, &j)
		r, err := s.runOrRepeat(ctx, j, func() (stormRun, error) { return s.run(ctx, m, j) })
		if err != nil && !r.failed() && r.Why == "" {
			return err
		}
		rep.add(r)
		s.Say("%s", r.line())
		if err := rep.save(filepath.Join(s.Dir, "storm.json")); err != nil {
			return err
		}
		switch {
		case err != nil:
			return &failedRun{err}
		case r.unseen() != "" && !r.Discarded:
			return &failedRun{errors.New("it is " + r.unseen())}
		case !r.Discarded || s.busy:
			return nil
		}
		if !r.Load.Foreign() && s.rate == 0 {
			p.slower(j.System, r.Load.Busy-r.Load.Others())
		}
	}
	if j.Fault != "" {
		return &failedRun{fmt.Errorf("the machine was too busy, %d times", mostTries)}
	}
	return nil
}

// job is one run to do.
type job struct {
	System  string
	Nodes   int
	Node    testkit.Rate // of a node's link
	Server  testkit.Rate
	Fault   string
	Pair    bool   // it is one of a pair
	Bin     string // directory of the programs; "": those beside this one
	Release string // of those in Bin
	Change  change
	Again   int // number of earlier runs of this kind
}

// choose sets the rates of a run's links.
func (s *Storm) choose(p *pace, j *job) {
	j.Node, j.Server = s.rate, s.uplink
	if j.Node == 0 {
		j.Node = p.rate(s.system(j.System), j.Nodes, s.most(j.System))
	}
	if j.Server == 0 {
		j.Server = j.Node
	}
}

// most returns the largest number of nodes for a system.
func (s *Storm) most(system string) int {
	n := slices.Max(s.nodes)
	if most := s.system(system).Most; most > 0 {
		n = min(n, most)
	}
	return n
}

// plan lists the runs. Their rates are chosen later.
func (s *Storm) plan() []job {
	if len(s.faults) > 0 {
		return s.planFaults()
	}
	if s.change != (change{}) {
		return s.planPairs()
	}
	return s.planStorms()
}

// planStorms lists the runs: for each number of nodes, the largest first, all systems in turn, so that changes on the
// machine affect all systems.
func (s *Storm) planStorms() (out []job) {
	for again := range s.runs {
		for _, n := range descending(s.nodes) {
			for _, name := range s.wanted {
				if most := s.system(name).Most; most == 0 || n <= most {
					out = append(out, job{System: name, Nodes: n, Again: again})
				}
			}
		}
	}
	return out
}
