package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pando/internal/build"
	"pando/internal/steps"
	"pando/internal/testkit"
)

// names say what some steps do.
var names = map[string]string{
	build.StepTree: "the tree", build.StepScan: "looking through the tree", build.StepObjects: "compressing and " +
		"storing",
}

// TestProgressLines: a build whose output is no terminal: a line when a step begins and ends, and some between.
func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	now := zero
	p := NewProgress(&b, func() time.Time { return now }, names)
	step := func(after time.Duration, s steps.Progress) {
		now = now.Add(after)
		p.Show(s)
	}
	step(0, steps.Progress{Step: build.StepTree})
	for range 40 {
		step(time.Second, steps.Progress{Step: build.StepTree, Note: "Setting up libc6 ..."})
	}
	step(0, steps.Progress{Step: build.StepScan})
	step(time.Second, steps.Progress{Step: build.StepScan, Done: 14000, Unit: "files"})
	step(0, steps.Progress{Step: build.StepObjects})
	for i := range int64(3) {
		step(
			20*time.Second,
			steps.Progress{Step: build.StepObjects, Done: (i + 1) * 200_000_000, Total: 720_000_000, Unit: "bytes"},
		)
	}
	p.End(true)
	testkit.Golden(t, *update, "progress.txt", b.String())
}

// TestProgressBar: what others write stands above the bar, and nothing of the bar stays.
func TestProgressBar(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, func() time.Time { return zero }, names)
	p.draw("objects [=====    ]")
	if _, err := p.Write([]byte("a log line\n")); err != nil {
		t.Fatal(err)
	}
	p.End(false)
	if got, want := b.String(), "\robjects [=====    ]\x1b[K\r\x1b[Ka log line\n\robjects [=====    "+
		"]\x1b[K\r\x1b[K"; got != want {
		t.Errorf("terminal got %q, want %q", got, want)
	}
}

func TestShare(t *testing.T) {
	for _, k := range [][2]int64{{0, 10}, {5, 10}, {10, 10}, {11, 10}} {
		if got := Bar(k[0], k[1]); strings.Index(got, "]") != shareWidth+1 {
			t.Errorf("%v: %q", k, got)
		}
	}
	if Bar(5, 0) != "" {
		t.Error("a share of nothing is known")
	}
}
