package testbed

import (
	"context"
	"time"

	"pando/internal/bench"
)

// A server that has just started does work that is not part of a boot: it reads its state, and prepares what nodes may
// request.
const (
	settleLook = 200 * time.Millisecond
	settleMost = 15 * time.Second // a longer busy server is a fault
	settleIdle = 0.02             // seconds of processor time between two looks: two ticks of the kernel's clock
)

// Settle waits until the server is idle, and reports if it is not.
func (t *Testbed) Settle(ctx context.Context) error {
	before, _, err := bench.ProcessCost(t.Site.PID())
	for begun := time.Now(); err == nil && time.Since(begun) < settleMost; {
		if err = bench.Pause(ctx, settleLook); err != nil {
			return err
		}
		var now float64
		if now, _, err = bench.ProcessCost(t.Site.PID()); now-before <= settleIdle {
			return err
		}
		before = now
	}
	if err == nil {
		t.Say("   the server has been busy for %v before anything boots", settleMost)
	}
	return err
}
