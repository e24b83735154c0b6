package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"pando/internal/testkit"
)

// What the whole machine did in a round falls out of the ratios of that round.
func TestAloneRatiosArePaired(t *testing.T) {
	r := aloneResult{
		Seconds: map[string][]float64{"pando": {10, 30, 11}, "disk": {10, 30, 10}, "nbd-squashfs": {20, 60, 20}},
	}
	if got := paired(r.Seconds["pando"], r.Seconds["disk"]); got != 1 {
		t.Errorf("against a disk: %g, want the median of 1, 1 and 1.1", got)
	}
	r.Clock = byWall
	table := r.table()
	for _, want := range []string{"nbd-squashfs              20.00      20.00      60.00          0.500", "Its clock is the wall's"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	without := (&aloneResult{Seconds: map[string][]float64{"nfs": {6}}}).table()
	if !strings.Contains(without, "6.00              -  nfs-ganesha") {
		t.Errorf("without Pando there is no ratio:\n%s", without)
	}
	if strings.Contains(table, "nbd-squashfs-1024") {
		t.Errorf("a way that was not measured is in\n%s", table)
	}
}

// What is aimed at is beside the quickest way of its kind, and says which that was.
func TestAloneIsBesideTheQuickest(t *testing.T) {
	r := &aloneResult{
		Seconds: map[string][]float64{
			"pando":           {10, 10},
			"nbd-squashfs":    {10.5, 10.5},
			"nbd-squashfs-32": {9.5, 10},
			"disk":            {8, 8},
		},
	}
	got := r.targets()
	if want := "squashfs-zstd over NBD, the quickest of 2 read-aheads (`nbd-squashfs-32`) (median of 2 " +
		"pairs)"; !strings.HasSuffix(
		got[0].what,
		want,
	) ||
		got[0].got <= 1 ||
		got[1].got != 1.25 {
		t.Errorf("got %+v", got)
	}
	delete(r.Seconds, "nbd-squashfs-32")
	if got := r.targets()[0]; !strings.HasSuffix(got.what, "squashfs-zstd over NBD (median of 2 pairs)") ||
		got.got >= 1 {
		t.Errorf("of one way: %+v", got)
	}
}

// Each clock has results of its own, and targets that tell them apart.
func TestAloneClocks(t *testing.T) {
	seconds := map[string][]float64{"pando": {10}, "disk": {10}}
	counted, wall := &aloneResult{
		Clock:   byInstructions,
		Seconds: seconds,
	}, &aloneResult{
		Clock:   byWall,
		Seconds: seconds,
	}
	if counted.file() == wall.file() || counted.command() == wall.command() || counted.table() == wall.table() {
		t.Errorf("%s and %s, %q", counted.file(), wall.file(), wall.command())
	}
	for _, r := range []*aloneResult{counted, wall} {
		of := r.targets()
		if got := strings.Contains(of[1].what, "by the wall's clock"); got != (r == wall) || !of[1].ok || of[0].ok ||
			of[1].got != 1 {
			t.Errorf("by %s: %+v", r.Clock, of)
		}
	}
	a, err := newAlone([]string{"--wall"}, io.Discard, io.Discard)
	if err != nil || slices.Equal(a.kernelArgs(), testkit.CountedKernelArgs()) != testkit.HasKVM() {
		t.Errorf("--wall: the kernel is told %q, %v", a.kernelArgs(), err)
	}
	if a, err = newAlone(nil, io.Discard, io.Discard); err != nil ||
		!slices.Equal(a.kernelArgs(), testkit.CountedKernelArgs()) {
		t.Errorf("the kernel is told %q, %v", a.kernelArgs(), err)
	}
}

func TestAloneFlags(t *testing.T) {
	var out bytes.Buffer
	for args, want := range map[string]string{"--ways floppy": `way "floppy"`, "--runs 0": "0 rounds", "extra": `unknown argument "extra"`} {
		if _, err := newAlone(strings.Fields(args), &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	a, err := newAlone([]string{"--dir", "x", "--runs", "3", "--screen", "--ways", "pando,disk"}, &out, &out)
	if err != nil || a.runs != 3 || len(a.ways) != 2 || !a.screen ||
		a.command != "pando-lab alone --dir cmd/pando-lab/x --runs 3 --screen --ways pando,disk" {
		t.Errorf("%+v, %v", a, err)
	}
}

// A boot pack is of the machine that is measured: one without a graphics card never starts a desktop.
func TestAloneRecordsTheMachineThatItMeasures(t *testing.T) {
	for _, args := range [][]string{nil, {"--screen"}} {
		a, err := newAlone(args, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		a.star = &testkit.Star{}
		if c := a.recorderMachine(); c.Screen != (args != nil) || c.Screen != a.screen {
			t.Errorf("%q: what is recorded has a graphics card: %t", args, c.Screen)
		}
	}
}

// A page says so when one machine alone had another build of the image.
func TestAloneOfAnotherBuild(t *testing.T) {
	a := &aloneResult{Version: "sha256:0123456789abcdef0123"}
	if got := a.buildText(a.Version); got != "" {
		t.Errorf("of the same: %q", got)
	}
	if got := a.buildText("sha256:ffff"); !strings.Contains(
		got,
		"another build of the image: version `sha256:0123456789ab…`",
	) {
		t.Errorf("of another: %q", got)
	}
}
