package main

import (
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 61_900_000: "61.9 MB", 99_949_999: "99.9 MB",
		99_950_000: "100 MB", 999_499_999: "999 MB", 999_500_000: "1.0 GB", 1 << 62: "4.6 EB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.000s", 42 * time.Millisecond: "0.042s", 12300 * time.Millisecond: "12.3s",
		185 * time.Second: "3m05s", 7440 * time.Second: "2h04m", 74 * time.Hour: "3d02h", -time.Second: "-1.0s"} {
		if got := span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{"pc001": "pc001", "pc0012": "pc00~", "Ärger!": "Ärge~", "": ""} {
		if got := cut(in, 5); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// What is said of a change is when nodes follow it.
func TestPrintChange(t *testing.T) {
	for _, x := range []struct {
		changed []string
		dry     bool
		want    string
	}{
		{nil, false, "group lab: as it was\n"},
		{[]string{"image: a -> b"}, false, "group lab: image: a -> b\nthe next boot of 3 nodes differs\n"},
		{[]string{"image: a -> b"}, true, "group lab: image: a -> b\nthe next boot of 3 nodes would differ; " +
			"nothing was done\n"},
		{[]string{"extensions: none -> x"}, false, "group lab: extensions: none -> x\n3 nodes follow: those that " +
			"run at once, others at their next boot\n"},
		{[]string{"extensions: none -> x"}, true, "group lab: extensions: none -> x\n3 nodes would follow, those " +
			"that run at once; nothing was done\n"},
		{[]string{"image: a -> b", "extensions: none -> x"}, false,
			"group lab: image: a -> b; extensions: none -> x\nthe next boot of 3 nodes differs; in extensions, " +
				"those that run follow at once\n"},
	} {
		var out strings.Builder
		(&app{out: &out}).printChange("group lab", x.changed, x.dry, 3)
		if out.String() != x.want {
			t.Errorf("%q, dry run %v: %q, want %q", x.changed, x.dry, out.String(), x.want)
		}
	}
}
