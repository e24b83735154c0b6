package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The page of builds says what each way took, and what of Docker's work is not counted.
func TestBuildPage(t *testing.T) {
	dir := t.TempDir()
	p := &buildBench{lab: lab{dir: dir}, page: filepath.Join(dir, "page.md")}
	if err := p.measure(t.Context()); err == nil || !strings.Contains(err.Error(), "make bench-build") {
		t.Errorf("without results: %v", err)
	}
	run := func(way string, seconds int) buildRun {
		return buildRun{
			Way:    way,
			Wall:   time.Duration(seconds) * time.Second,
			CPU:    time.Second,
			Memory: 100e6,
			Bytes:  200e6,
		}
	}
	b := buildResult{Processors: 2, Bytes: 700e6, Files: 9000}
	for _, way := range buildWays(&docker{}) {
		again := run(way.name, 5)
		again.Again, again.Bytes = true, 20_000
		if way.docker != nil {
			again.Before = 7 * time.Second
		}
		b.Runs = append(b.Runs, run(way.name, 20), again)
	}
	if err := saveJSON(filepath.Join(dir, "build.json"), b); err != nil {
		t.Fatal(err)
	}
	if err := p.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| tar \\| gzip | 20.0 (1.00) | 5.0 (1.00) | 1.0 (1.00) | 200.0 (1.00) | 0.020 |",
		"| docker save \\| gzip | 20.0 (1.00) |",
		"`docker import` took 0.0 s (again: 7.0 s)",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page does not say %q:\n%s", want, text)
		}
	}
}
