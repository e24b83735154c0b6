package alone

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/testkit"
)

// result is what was measured: seconds from /init to the default target by way, one value for each round.
type result struct {
	Date    time.Time            `json:"date"`
	Machine string               `json:"machine"`
	KVM     bool                 `json:"kvm"`
	Clock   string               `json:"clock"`             // clock of an emulated machine
	QEMU    string               `json:"qemu"`              // release of QEMU; "": unknown
	Command string               `json:"command,omitempty"` // command line that repeats it; "": unknown
	Release string               `json:"release,omitempty"` // release of Pando; "": not recorded
	Image   string               `json:"image"`
	Version string               `json:"version"`
	BootSet int64                `json:"boot_set"`       // bytes
	Work    float64              `json:"work,omitempty"` // processor time of a replayed boot, in seconds
	Seconds map[string][]float64 `json:"seconds"`

	// waits of each replayed boot for reads, by each twentieth of its work, in seconds
	Waited map[string][][]float64 `json:"waited,omitempty"`

	ways []way // all ways, in the order of the table
}

// The clocks of an emulated machine.
const (
	byInstructions = "instructions" // 1 ns for each, and real time while the machine waits
	byWall         = "wall"
	byReplay       = "replay" // there was no such machine: a recorded boot was replayed
)

func newResult(m *testbed.Material, image, command, clock, release string) *result {
	return &result{
		Clock:   clock,
		QEMU:    qemuRelease(),
		Date:    time.Now().UTC().Truncate(time.Second),
		Machine: bench.Machine(),
		KVM:     testkit.HasKVM(),
		Image:   image,
		Command: command,
		Release: release,
		Version: string(
			m.Version,
		),
		BootSet: m.BootSet,
		Seconds: map[string][]float64{},
		Waited:  map[string][][]float64{},
	}
}

// qemuRelease returns the release of the emulator, "" if it is unknown.
func qemuRelease() string {
	out, err := exec.Command("qemu-system-x86_64", "--version").Output()
	line, _, _ := strings.Cut(string(out), " (")
	release, ok := strings.CutPrefix(line, "QEMU emulator version ")
	if err != nil || !ok {
		return ""
	}
	return strings.TrimSpace(release)
}

// file returns the name of the result's file, which is beside the results of storms.
func (r *result) file() string {
	if r.Clock == byInstructions {
		return "alone.json"
	}
	return "alone-" + r.Clock + ".json"
}

// paired returns the median of the ratios of values of the same round, which cancels out other load in that round.
func paired(a, b []float64) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, a[i]/b[i])
	}
	return bench.MedianOf(ratios)
}

// table has a line for each way, with the ratio of Pando's time to it.
func (r *result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s %10s %10s %10s %14s  %s\n", "way", "median s", "min s", "max s", "Pando / it", "what")
	for _, w := range r.ways {
		s := r.Seconds[w.name]
		if len(s) == 0 {
			continue
		}
		ratio := "-"
		if len(r.Seconds[bench.PandoWay]) > 0 {
			ratio = fmt.Sprintf("%.3f", paired(r.Seconds[bench.PandoWay], s))
		}
		fmt.Fprintf(
			&b,
			"%-20s %10.2f %10.2f %10.2f %14s  %s\n",
			w.name,
			bench.MedianOf(s),
			slices.Min(s),
			slices.Max(s),
			ratio,
			w.what,
		)
	}
	fmt.Fprintf(&b, "%s\n", r.Machine)
	by := ""
	if r.QEMU != "" {
		by = " by QEMU " + r.QEMU
	}
	switch {
	case r.Clock == byReplay:
		fmt.Fprintf(
			&b,
			"No machine was started: the reads of a recorded boot are made on these processors, on a link of %s. "+
				"Between them the boot works for %.2f s on one\nof them, which is what the disk's boot takes by "+
				"the clock of instructions; "+
				"what brings its root, and the server, have the rest. The disk is this machine's.\n%s",
			testkit.Rate(replayRate),
			r.Work,
			r.waits(),
		)
	case r.KVM:
	case r.Clock == byInstructions:
		b.WriteString(
			"Emulated" + by + ", one processor. Its clock goes on by 1 ns with each instruction, and with real " +
				"time while it waits.\n",
		)
	default:
		b.WriteString(
			"Emulated" + by + ", one processor. Its clock is the wall's, so what the emulator is slow at counts " +
				"for more than on a real machine.\n",
		)
	}
	return b.String()
}
