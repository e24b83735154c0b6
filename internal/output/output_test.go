package output

import (
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 61_900_000: "61.9 MB",
		99_949_999: "99.9 MB",
		99_950_000: "100 MB", 999_499_999: "999 MB", 999_500_000: "1.0 GB", 1 << 62: "4.6 EB"} {
		if got := Size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0.000s", 42 * time.Millisecond: "0.042s",
		12300 * time.Millisecond: "12.3s",
		185 * time.Second:        "3m05s", 7440 * time.Second: "2h04m", 74 * time.Hour: "3d02h",
		-time.Second: "-1.0s"} {
		if got := Span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestCounted: equal warnings are printed once, with their count.
func TestCounted(t *testing.T) {
	got := Counted([]string{"b", "a", "b", "b"})
	if strings.Join(got, ", ") != "b (3 times), a" || Counted(nil) != nil {
		t.Errorf("%q", got)
	}
}
