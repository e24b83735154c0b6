package terminal

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/build"
	"pando/internal/steps"
	"pando/internal/testkit"
)

// names are the steps of a job.
var names = []Step{
	{build.StepTree, "files", "installing packages"}, {build.StepScan, "check", "looking through the files"},
	{build.StepObjects, "compress", "compressing and storing"},
}

// TestProgressLines: without a terminal a build prints a line when a step begins and ends, and some between.
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

// TestProgressBar: other output appears above the bar, and the bar leaves nothing behind.
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

// A step without reports still shows its number, what it does and for how long.
func TestProgressOfWhatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := NewProgress(&b, time.Now, names)
		p.Show(steps.Progress{Step: build.StepTree})
		time.Sleep(45*time.Second + time.Millisecond)
		p.End(false)
		want := "1/3 files       installing packages\n1/3 files       15.0s: installing packages\n" +
			"1/3 files       30.0s: installing packages\n1/3 files       45.0s: installing packages\n"
		if b.String() != want {
			t.Errorf("%s", b.String())
		}
		p.Show(steps.Progress{Step: build.StepTree, Note: "inside lab", Held: true}) // a shell has the terminal
		held := b.Len()
		time.Sleep(time.Minute)
		if b.Len() != held {
			t.Errorf("drawn over a program: %s", b.String()[held:])
		}
		p.End(false)
		b.Reset()
		p.Show(steps.Progress{Step: "push", Done: 3, Total: 12, Unit: "bytes"}) // a job without known steps
		p.End(true)
		if got := b.String(); !strings.HasPrefix(got, "push      [======") {
			t.Errorf("%s", got)
		}
	})
}
