package alone

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"pando/internal/bench"
	"pando/internal/lab/rivals"
	"pando/internal/testkit"
)

// Other load on the machine in a round does not change the ratios of that round.
func TestAloneRatiosArePaired(t *testing.T) {
	r := result{
		ways:    ways(rivals.Kernel()),
		Seconds: map[string][]float64{"pando": {10, 30, 11}, "disk": {10, 30, 10}, "nbd-squashfs": {20, 60, 20}},
	}
	if got := paired(r.Seconds["pando"], r.Seconds["disk"]); got != 1 {
		t.Errorf("against a disk: %g, want the median of 1, 1 and 1.1", got)
	}
	r.Clock = byWall
	table := r.table()
	for _, want := range []string{"nbd-squashfs              20.00      20.00      60.00          0.500",
		"Its clock is the wall's"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	without := (&result{ways: ways(rivals.Kernel()), Seconds: map[string][]float64{"nfs": {6}}}).table()
	if !strings.Contains(without, "6.00              -  nfs-ganesha") {
		t.Errorf("without Pando there is no ratio:\n%s", without)
	}
	if strings.Contains(table, "nbd-squashfs-1024") {
		t.Errorf("a way that was not measured is in\n%s", table)
	}
}

// Results of each clock are kept in their own file.
func TestAloneClocks(t *testing.T) {
	seconds := map[string][]float64{"pando": {10}, "disk": {10}}
	counted, wall := &result{
		ways:    ways(rivals.Kernel()),
		Clock:   byInstructions,
		Seconds: seconds,
	}, &result{
		ways:    ways(rivals.Kernel()),
		Clock:   byWall,
		Seconds: seconds,
	}
	if counted.file() == wall.file() || counted.table() == wall.table() {
		t.Errorf("%s and %s", counted.file(), wall.file())
	}
	a, err := New(others(), []string{"--wall"}, io.Discard, io.Discard)
	if err != nil || slices.Equal(a.kernelArgs(), testkit.CountedKernelArgs()) != testkit.HasKVM() {
		t.Errorf("--wall: the kernel is told %q, %v", a.kernelArgs(), err)
	}
	if a, err = New(others(), nil, io.Discard, io.Discard); err != nil ||
		!slices.Equal(a.kernelArgs(), testkit.CountedKernelArgs()) {
		t.Errorf("the kernel is told %q, %v", a.kernelArgs(), err)
	}
}

func TestAloneFlags(t *testing.T) {
	var out bytes.Buffer
	for args, want := range map[string]string{"--ways floppy": `way "floppy"`, "--runs 0": "0 rounds",
		"extra": `unknown argument "extra"`} {
		if _, err := New(others(), strings.Fields(args), &out, &out); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	a, err := New(others(), []string{"--dir", "x", "--runs", "3", "--screen", "--ways", "pando,disk"}, &out, &out)
	if err != nil || a.runs != 3 || len(a.ways) != 2 || !a.Screen ||
		a.command != "pando-lab alone --dir x --runs 3 --screen --ways pando,disk" {
		t.Errorf("%+v, %v", a, err)
	}
}

func others() bench.Others { return bench.Others{Systems: rivals.All(), Kernel: rivals.Kernel()} }
