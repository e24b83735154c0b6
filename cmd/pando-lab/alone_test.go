package main

import (
	"bytes"
	"strings"
	"testing"
)

// What the whole machine did in a round falls out of the ratios of that round.
func TestAloneRatiosArePaired(t *testing.T) {
	r := aloneResult{Seconds: map[string][]float64{"pando": {10, 30, 11}, "disk": {10, 30, 10}, "nbd-squashfs": {20, 60, 20}}}
	if got := paired(r.Seconds["pando"], r.Seconds["disk"]); got != 1 {
		t.Errorf("against a disk: %g, want the median of 1, 1 and 1.1", got)
	}
	table := r.table()
	for _, want := range []string{"nbd-squashfs            20.00      20.00      60.00          0.500", "Emulated processors"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "nbd-squashfs-1024") {
		t.Errorf("a way that was not measured is in\n%s", table)
	}
}

func TestAloneFlags(t *testing.T) {
	var out bytes.Buffer
	for args, want := range map[string]string{"--ways floppy": `way "floppy"`, "--runs 0": "0 rounds", "extra": `unknown argument "extra"`} {
		if _, err := newAlone(strings.Fields(args), &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	a, err := newAlone([]string{"--runs", "3", "--ways", "pando,disk"}, &out, &out)
	if err != nil || a.runs != 3 || len(a.ways) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}
