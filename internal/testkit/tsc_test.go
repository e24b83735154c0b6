package testkit

import (
	"os"
	"strings"
	"testing"
)

// TestTSC: where the counter goes evenly it is known how fast, and twice the same.
func TestTSC(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	khz := tscKHz()
	if !strings.Contains(string(info), "constant_tsc") {
		if khz != 0 {
			t.Errorf("%d kHz, though the counter does not go evenly", khz)
		}
		return
	}
	if khz < 500_000 || khz > 10_000_000 {
		t.Errorf("%d kHz", khz)
	}
	t1, c1 := tscNow()
	t2, c2 := tscNow()
	for t2.Sub(t1) < tscTime {
		t2, c2 = tscNow()
	}
	if again := float64(c2-c1) / float64(t2.Sub(t1)) * 1e6; again < 0.99*float64(khz) || again > 1.01*float64(khz) {
		t.Errorf("%d kHz, then %.0f", khz, again)
	}
}
