package trace

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

var zero = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(ms int, s Stage, k Kind, more ...func(*Event)) Event {
	e := Event{Time: zero.Add(time.Duration(ms) * time.Millisecond), Stage: s, Kind: k}
	for _, m := range more {
		m(&e)
	}
	return e
}

func failed(message, hint string) func(*Event) {
	return func(e *Event) { e.Message, e.Hint = message, hint }
}

func try(n int) func(*Event) { return func(e *Event) { e.Attempt = n } }

func sent(source string, n int64) func(*Event) {
	return func(e *Event) { e.Bytes = map[string]int64{source: n} }
}

// boots has the events of some boots, good and bad.
func boots() map[string][]Event {
	good := []Event{
		at(
			0,
			DHCP,
			Begin,
		), at(900, DHCP, End), at(1000, BootFile, Begin), at(1400, BootFile, End, sent(SourceK, 70_000)),
		at(
			2000,
			Script,
			Begin,
		), at(2001, Script, End), at(2100, Kernel, Begin), at(3100, Kernel, End, sent(SourceK, 8_000_000)),
		at(3110, Initramfs, Begin), at(4200, Initramfs, End, sent(SourceK, 9_000_000)),
		at(7000, Init, End, func(e *Event) { e.Attrs = map[string]string{AttrKernel: "2.5s"} }),
		at(
			7010,
			Modules,
			Begin,
			try(1),
		), at(7400, Modules, End, try(1)), at(7400, Link, Begin, try(1)), at(9000, Link, End, try(1)),
	}
	slow := append(
		append([]Event{}, good...),
		at(
			9000,
			Address,
			Begin,
			try(1),
		),
		at(12000, Address, Fail, try(1), failed("no answer", "is a DHCP server there?")),
		at(12500, Address, Begin, try(2)),
		at(12600, Address, End, try(2)),
	)
	return map[string][]Event{
		"good": append(
			append([]Event{}, good...),
			at(12000, Booted, End, sent("server", 30_000_000)),
			at(12500, "desktop", End),
		),
		"fixed":  append(append([]Event{}, slow...), at(13000, Register, Begin)),
		"failed": slow[:len(slow)-2],
		"retry": {
			at(0, Script, Begin),
			at(1, Script, End),
			at(5, Kernel, Begin),
			at(50, Kernel, Fail, failed("broken off", "")),
			at(60, Kernel, Begin),
			at(99, Kernel, End, sent(SourceK, 5)),
		},
		"down": append(
			append([]Event{}, good...),
			at(20000, Booted, End),
			at(90000, Shutdown, Begin),
			at(90001, Config, Fail, failed("late", "")),
		),
		"facts": {
			at(0, Script, Begin),
			at(10, Device, Info, failed("wrong bytes", "")),
			at(20, Script, Info, failed("waits", "")),
		},
	}
}

// TestTimelines compares the timelines and the progress of the boots above with golden files.
func TestTimelines(t *testing.T) {
	for name, events := range boots() {
		var b strings.Builder
		var p Progress
		for _, e := range events {
			p.Apply(e)
		}
		fmt.Fprintf(&b, "state %s, stage %s, elapsed %s, broken %q, failure %q, hint %q, bytes %v\n",
			p.State, p.Stage, p.Elapsed(), p.Broken, p.Failure, p.Hint, p.Bytes)
		if k, known := KernelStart(events); known {
			fmt.Fprintf(&b, "kernel started at %s\n", k)
		}
		for _, s := range NewTimeline(events).Steps {
			fmt.Fprintf(&b, "%-10s at %-8s for %-8s open=%-5t attempt=%d failure=%q message=%q bytes=%v\n",
				s.Stage, s.Start, s.Duration, s.Open, s.Attempt, s.Failure, s.Message, s.Bytes)
		}
		golden(t, filepath.Join("testdata", name+".txt"), b.String())
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%swant\n%s", path, got, want)
	}
}

// TestOrderDoesNotMatter: late reports of a node do not change the timeline.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := boots()["fixed"]
		for i := range events {
			events[i].Seq = int64(i)
		}
		want := fmt.Sprint(NewTimeline(events))
		if got := fmt.Sprint(NewTimeline(rapid.Permutation(events).Draw(t, "events"))); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// A fact with a time before its stage began does not make the stage begin earlier.
func TestFactsBeforeTheirStage(t *testing.T) {
	fact := at(500, SwitchRoot, Info, func(e *Event) { e.Message = "early" })
	got := NewTimeline([]Event{at(0, Init, Begin), fact, at(900, SwitchRoot, Begin), at(1000, SwitchRoot, End)}).Steps
	if len(got) != 2 || got[1].Start != 900*time.Millisecond || got[1].Duration != 100*time.Millisecond {
		t.Errorf("got %+v", got)
	}
}

func TestStageOrder(t *testing.T) {
	for i, s := range Stages() {
		if Rank(s) != i {
			t.Errorf("%s has rank %d, want %d", s, Rank(s), i)
		}
	}
	if Rank("desktop") != -1 {
		t.Error("a mark has a rank")
	}
}

func TestPercentile(t *testing.T) {
	values := []time.Duration{5, 1, 4, 2, 3}
	for p, want := range map[float64]time.Duration{0: 1, 0.2: 1, 0.21: 2, 0.5: 3, 0.9: 5, 1: 5, 2: 5} {
		if got := Percentile(values, p); got != want {
			t.Errorf("percentile %v is %d, want %d", p, got, want)
		}
	}
	if values[0] != 5 || Percentile(nil, 0.5) != 0 {
		t.Error("values were sorted in place, or none has a percentile")
	}
}

func TestSummarize(t *testing.T) {
	all := boots()
	got := Summarize([]Timeline{NewTimeline(all["good"]), NewTimeline(all["fixed"]), NewTimeline(all["failed"])})
	for _, f := range got {
		switch f.Stage {
		case DHCP:
			if f.Count != 3 || f.P50 != 900*time.Millisecond {
				t.Errorf("dhcp: %+v", f)
			}
		case Address:
			if f.Count != 1 || f.Max != 3600*time.Millisecond {
				t.Errorf("address: %+v", f)
			}
		case Shutdown, Manifest:
			t.Errorf("%s was never reached: %+v", f.Stage, f)
		}
	}
}
