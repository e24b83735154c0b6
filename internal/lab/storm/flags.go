package storm

import (
	"flag"
	"strings"

	"pando/internal/bench"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// addImageFlags adds the flags for the image and the directories.
func (s *Storm) addImageFlags(f *flag.FlagSet) {
	f.StringVar(&s.Dir, "dir", "build/storm", "where everything is kept")
	f.StringVar(&s.Data, "data", "", "the server's data directory (default: data below --dir)")
	f.StringVar(&s.Image, "image", "storm", "image in it, built if it is not there; or a version, sha256:...")
	f.StringVar(&s.Recipe, "recipe", "debian:bookworm", "recipe to build the image by")
	f.StringVar(&s.Tree, "tree", "", "directory to build the image from, instead of a recipe")
	f.Func(
		"reads",
		"read traces of boots of the image, files with commas (default: those that the server keeps)",
		bench.ListOf(&s.Traces),
	)
	f.StringVar(
		(*string)(&s.Until),
		"until",
		string(trace.Booted),
		"what ends a boot: booted, or a mark that the image makes and `pando boot record --until` has recorded, "+
			"such as browser",
	)
	f.IntVar(&s.Memory, "memory", 0, "MiB of an emulated machine (default 768)")
}

// addFlags adds the flags for nodes and links.
func (s *Storm) addFlags(f *flag.FlagSet) {
	f.Func("nodes", "numbers of nodes, with commas (default 1,10,40)", numbersOf(&s.nodes))
	f.Func(
		"systems",
		"what to measure, with commas, of "+strings.Join(
			names(s.systems()),
			",",
		)+" (default: all)",
		bench.ListOf(&s.wanted),
	)
	f.IntVar(&s.runs, "runs", 1, "runs of each")
	f.Float64Var(&s.think, "think", 0.5, "time that a boot thinks between its reads, in all, in units of W/(eta B)")
	f.Func("rate", "link of a node, such as 10mbit (default: what this machine can tell)", bench.RateOf(&s.rate))
	f.Func("server-rate", "link of the server (default: as a node's)", bench.RateOf(&s.uplink))
	f.BoolVar(&s.full, "full", false, "the long form: up to 200 nodes")
	f.BoolVar(&s.busy, "busy", false, "show the figures of runs in which the machine was too busy, too")
}

// addChangeFlags adds the flags for pairs of runs.
func (s *Storm) addChangeFlags(f *flag.FlagSet) {
	f.StringVar(
		&s.against,
		"against",
		"",
		"make each run twice: first with the programs pando and pando-init of another build in this directory, "+
			"then with those beside pando-lab",
	)
	f.DurationVar(
		&s.change.Delay,
		"delay",
		0,
		"make each run twice, the second time with a round trip that is so much longer; the lab carries all "+
			"packets then",
	)
	f.BoolVar(
		&s.change.Cold,
		"cold",
		false,
		"make each run twice, the second time when this machine has forgotten all that it has in memory of files",
	)
}

// addKindFlags adds the flags for what is measured instead of storms, or with them.
func (s *Storm) addKindFlags(f *flag.FlagSet) {
	f.Func(
		"fault",
		"no storms but with these faults, with commas, or all: "+strings.Join(faultNames()[1:], ", "),
		bench.ListOf(&s.faults),
	)
	f.IntVar(
		&s.guests,
		"guests",
		0,
		"no storms of daemons: so many emulated machines boot on such links, 1 to 8, by Pando, "+strings.Join(
			withGuests,
			", ",
		),
	)
	f.DurationVar(
		&s.skew,
		"skew",
		0,
		"with --guests, and of Pando only: their clocks are wrong by so much, in turn ahead and behind",
	)
	f.BoolVar(
		&s.tell,
		"tell",
		false,
		"nodes are the server's: they load kernel and initramfs and tell how far they are, so that the storm is "+
			"on its dashboard, and takes longer; with --fault always, but they load before the storm, and what "+
			"the fault does is looked for on the timelines",
	)
	f.BoolVar(
		&s.k,
		"k",
		false,
		"a storm is from power-on: each node asks the server for its boot as firmware does, waits for its turn, "+
			"and loads kernel and initramfs before its root; of "+strings.Join(
			withKSystems,
			" and ",
		)+", with --rate",
	)
	f.StringVar(
		&s.kernelFrom,
		"kernel-from",
		string(fleet.FromNeighbours),
		"with --k: who sends kernel and initramfs, neighbours (nodes that have booted, and the server) or servers",
	)
	f.IntVar(
		&s.wrongKernels,
		"wrong-kernels",
		0,
		"with --k: so many nodes, spread over all, serve kernel and initramfs with a wrong byte in each",
	)
	f.StringVar(
		&s.sim,
		"sim",
		"",
		"measure nothing: write what the simulator is compared with, internal/sim/testdata/lab.json, from results",
	)
	f.Func(
		"from",
		"results for --sim, files with commas, one for each image (default: storm.json below --dir)",
		bench.ListOf(&s.from),
	)
}
