package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pando/internal/image"
	"pando/internal/sim"
)

func TestTargetRow(t *testing.T) {
	for _, x := range []struct {
		of   target
		want string
	}{
		{target{"a", 2, 2, true}, "a|≤ 2.00|2.00|met"},
		{target{"a", 2, 3, true}, "a|≤ 2.00|3.00|**missed by 50 %**"},
		{target{"a", 2, 0, false}, "a|≤ 2.00|not measured|"},
		{target{"a", 0, 3, true}, "a||3.00|"},
	} {
		if got := strings.Join(x.of.row(), "|"); got != x.want {
			t.Errorf("%+v: got %q, want %q", x.of, got, x.want)
		}
	}
}

// find is the line of a table that begins so.
func find(t *testing.T, rows []row, begins string) string {
	t.Helper()
	for _, r := range rows {
		if strings.HasPrefix(r[0], begins) {
			return strings.Join(r[1:], "|")
		}
	}
	t.Errorf("no line begins with %q: %q", begins, rows)
	return ""
}

// All that is aimed at has a line, measured or not.
func TestTargets(t *testing.T) {
	run := func(n int, server, peer int64) stormRun {
		r := stormRun{System: bestName(), Nodes: n, Unit: 10, BootSet: 1e6, Read: 4e6, ServerSent: server}
		for range n {
			r.Each = append(
				r.Each,
				nodeRun{
					Booted:   14,
					Complete: 13,
					Link:     1e6,
					Taken: taken{Received: map[string]int64{"server": server / int64(n) / 2, "peer": peer},
						Messages: 10, Control: 8850, CPU: 0.4, Memory: 26e6},
				},
			)
		}
		if err := r.finish(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	fast, slow := run(1, 1e6, 0), run(1, 1e6, 0)
	fast.System, fast.NodeRate, fast.Each[0].Taken.CPU, slow.NodeRate = "prefetch", 70e6, 0.2, 15e5
	killed := run(10, 1e6, 0)
	killed.Fault, killed.Each[3] = "peers-killed", nodeRun{Killed: true}
	killed.Each[4].Taken.Incidents = map[string]int{"peers-gone": 1}
	untold := run(10, 1e6, 0)
	untold.Fault = "short-peer"
	stampless := run(40, 4e6, 5e5)
	stampless.Segment = unstamped
	if rows := (&report{BootSet: 1e6, Read: 4e6, Runs: []stormRun{stampless}}).serverTargets(); math.Abs(
		rows[3].got-36.43,
	) > 0.01 {
		t.Errorf("%s: %.2f", rows[3].what, rows[3].got)
	}
	warm := run(10, 1e6, 7e4)
	warm.Fault, warm.Each[2].Taken.Received = "cache-warm", map[string]int64{"server": 3e5, "peer": 4e5, "disk": 9e6}
	r := &report{
		BootSet: 1e6,
		Read:    4e6,
		K:       &kSize{Known: 5e5},
		Runs:    []stormRun{fast, slow, run(40, 4e6, 5e5)},
		Faults:  []stormRun{killed, untold, warm},
		Guests:  []guestRun{{Guests: 2, Booted: []float64{1, 2}}, {Guests: 3, Skew: 3600, Booted: []float64{1, 2, 3}}},
	}
	rows := r.targets(&aloneResult{Seconds: map[string][]float64{"pando": {10, 12}, "disk": {10, 10}}})
	for begins, want := range map[string]string{
		"the last of 40 nodes has its":       "≤ 1.25|1.30|**missed by 4 %**",
		"the last of 40 nodes has booted":    "|1.40|",
		"the last of 200 nodes has its":      "≤ 1.35|not measured|",
		"objects that left the server":       "≤ 1.30|2.00|**missed by 54 %**",
		"messages with the tracker":          "≤ 20.00|10.00|met", // 8850 bytes, and 10 times what HTTP adds
		"bytes of the root from the network": "≤ 1.00|0.70|met",
		"such messages in a second":          "|28.57|",
		"all else that left the server":      "|35.64|",
		"all that left":                      "|4.00|",
		"the same with K of 0.5 MB":          "|24.00|",
		"bytes on the wire":                  "≤ 0.35|0.25|met",
		"a fifth more peers, which break off": "all|10 of 10|**on no " +
			"timeline**",
		"one machine alone on a fast link, from /init to booted, to squashfs":         "≤ 1.00|not measured|",
		"one machine alone on a fast link, from /init to booted, to the same":         "≤ 1.05|1.10|**missed by 5 %**",
		"processor time of the block daemon for one boot, `prefetch`, link of 70mbit": "≤ 0.50|0.20|met",
		"processor time of the block daemon for one boot, `peers`, link of 1.5mbit":   "≤ 0.50|0.40|met",
		"memory":                               "≤ 24.00|25.50|**missed by 6 %**",
		"machines, emulated":                   "all|3 of 3|met",
		"a fifth of the nodes":                 "all|9 of 9|met",
		"the server is killed, and back after": "all|not measured|",
		"a fifth more peers, which send wrong": "all|not measured|",
	} {
		if got := find(t, rows, begins); got != want {
			t.Errorf("%s: got %q, want %q", begins, got, want)
		}
	}
	empty := (&report{}).targets()
	if len(empty) < len(faults())+8 {
		t.Errorf("of nothing that was measured: %q", empty)
	}
	for _, x := range empty[1:] {
		if !strings.Contains(strings.Join(x, "|"), "not measured") {
			t.Errorf("measured, of nothing: %q", x)
		}
	}
}

// A NIC's part stands instead of the one with every NIC; the largest of the usual ones is what is bounded.
func TestKOf(t *testing.T) {
	m := image.Manifest{Drivers: []image.Driver{
		{Name: "base", For: []string{"virtio_net"}}, {Name: "nics"},
		{
			Name:      "e1000",
			For:       []string{"e1000"},
			InsteadOf: "nics",
		}, {Name: "ice", For: []string{"ice"}, InsteadOf: "nics"},
		{Name: "usb", For: []string{"r8152"}, InsteadOf: "nics"},
	}}
	m.Kernel.Release = "6.1"
	m.Kernel.Size = 8_000_000
	for i, size := range []int64{700_000, 5_000_000, 50_000, 900_000, 3_000_000} {
		m.Drivers[i].Size = size
	}
	k := kOf(m, "sha256:1", 2_000_000)
	if k.Every != 15_700_000 || k.Known != 11_600_000 || k.NIC != "ice" {
		t.Errorf("got %+v", k)
	}
	k.Recipe = "debian:bookworm"
	rows := targetRows(kRows([]kSize{k})...)
	for begins, want := range map[string]string{
		"K of Debian 12, first boot": "≤ 18.00|15.70|met", "K of Debian 12, the NIC": "≤ 12.00|11.60|met",
		"K of Debian 13, first boot": "≤ 22.00|not measured|", "K of Debian 13, the NIC": "≤ 16.00|not measured|",
	} {
		if got := find(t, rows, begins); got != want {
			t.Errorf("%s: got %q, want %q", begins, got, want)
		}
	}
	with, ok := (&k).withK(stormRun{Nodes: 10, BootSet: 11_600_000, ServerSent: 11_600_000})
	if !ok || math.Abs(with-11) > 1e-9 {
		t.Errorf("with K for 10 nodes: got %g", with)
	}
	if _, ok := (*kSize)(nil).withK(stormRun{BootSet: 1}); ok {
		t.Error("K that was not measured has a figure")
	}
}

// What was measured beside the storms stands on the page, and what was not too.
func TestOtherSection(t *testing.T) {
	results := filepath.Join(t.TempDir(), "storm.json")
	var out strings.Builder
	if err := otherSection(&out, results); err != nil || strings.Count(out.String(), "not measured") != 5 {
		t.Errorf("of nothing: %v\n%s", err, out.String())
	}
	for name, text := range map[string]string{
		"update.json": `{"packages": ["a 1 -> 2"], "image": 1000000, "new": 400000}`,
		"k.json":      `{"images": [{"recipe": "debian:trixie", "every": 20000000, "known": 15000000, "nic": "ice", "release": "6.12"}]}`,
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(results), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out.Reset()
	if err := otherSection(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| 0.40 | **missed by 5 %** |", "The packages: a 1 -> 2.", "| ≤ 22.00 | 20.00 | " +
		"met |", "| ≤ 16.00 | 15.00 | met |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(results), "k.json"), []byte("half a"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := otherSection(&out, results); err == nil {
		t.Error("a file that is no JSON was taken")
	}
}

func TestOtherFlags(t *testing.T) {
	k, err := newKBytes([]string{"--data", "a,b", "--dir", "c"}, io.Discard, io.Discard)
	if err != nil || fmt.Sprint(k.from) != "[a b]" || !filepath.IsAbs(k.dir) {
		t.Errorf("got %+v, %v", k, err)
	}
	var told bytes.Buffer
	if _, err := newKBytes([]string{"rest"}, io.Discard, &told); err == nil || told.Len() == 0 {
		t.Errorf("got %v and told %q", err, told.String())
	}
}

// What counts is written for the simulator, in its terms: of all of Pando and of unicast, and nothing of rivals.
func TestWriteSim(t *testing.T) {
	dir := t.TempDir()
	r := storms()
	r.Pieces = 12
	for i, name := range []string{bestName(), unicastName, bestName()} {
		r.Runs[i].System, r.Runs[i].Think, r.Runs[i].ServerRate = name, 0.5, 2e6
	}
	r.Runs = append(r.Runs, r.Runs[0])
	r.Runs[3].System = "nbd"
	if err := r.save(filepath.Join(dir, "storm.json")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lab.json")
	s, err := newStorm([]string{"--dir", dir, "--sim", file}, io.Discard, io.Discard)
	if err == nil {
		err = s.measure(t.Context())
	}
	b, readErr := os.ReadFile(file)
	var lab sim.Lab
	if err = errors.Join(err, readErr); err == nil {
		err = json.Unmarshal(b, &lab)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := []sim.LabStorm{
		{
			Nodes:      1,
			NodeLink:   1e6,
			ServerLink: 2e6,
			W:          1e6,
			Pieces:     12,
			Think:      5 * time.Second,
			Last:       20 * time.Second,
			Server:     1e6,
		},
		{
			Nodes:      2,
			NodeLink:   1e6,
			ServerLink: 2e6,
			W:          1e6,
			Pieces:     12,
			Unicast:    true,
			Think:      2500 * time.Millisecond,
			Last:       12 * time.Second,
			Server:     1.2e6,
		},
	}
	if !slices.Equal(lab.Storms, want) {
		t.Errorf("got %+v, want %+v", lab.Storms, want)
	}
	r.Pieces = 0
	if err := r.save(filepath.Join(dir, "storm.json")); err != nil {
		t.Fatal(err)
	}
	if err := s.measure(t.Context()); err == nil {
		t.Error("results without the number of pieces were taken")
	}
}
