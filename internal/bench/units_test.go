package bench

import (
	"testing"
	"time"

	"pando/internal/testkit"
)

func TestUnit(t *testing.T) {
	if got := Unit(11_750_000, 100*testkit.Mbit); got != time.Second {
		t.Errorf("11.75 MB at 94 Mb/s of data: got %s, want 1s", got)
	}
}
