package admit

import (
	"testing"
	"time"

	"pando/internal/sim"
	"pando/internal/testkit"
)

// fillWithin bounds how long a storm of machines takes to load K, in units of the time that the server's link needs.
// With sleeps only, instead of held requests, it would be 1.5.
const fillWithin = 1.3

// Sixteen machines are switched on at once and are admitted two at a time, over a server link that is as fast as a
// machine's. The link is almost never idle, although iPXE can only sleep for whole seconds.
func TestAdmissionFillsTheLink(t *testing.T) {
	const machines, rate = 16, 100 * testkit.Mbit
	l := newLoaders(t, machines+1, 4<<20, rate, rate)
	if err := l.load(t.Context(), machines, &tally{}); err != nil { // the server packs its agent for the first request
		t.Fatal(err)
	}
	var y tally
	ended := make(chan error, machines)
	began := time.Now()
	for i := range machines {
		go func() { ended <- l.load(t.Context(), i, &y) }()
	}
	for range machines {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	took := time.Since(began)
	whole := float64(y.bytes.Load()) * 8 / (float64(rate) * sim.Goodput)
	t.Logf(
		"%d bytes of K for %d machines: %v, %.2f times what the link takes; %d at the same time at most, %d "+
			"scripts, %d s of sleep",
		y.bytes.Load()/machines,
		machines,
		took,
		took.Seconds()/whole,
		y.together.Load(),
		y.asked.Load(),
		y.slept.Load(),
	)
	if took.Seconds() > fillWithin*whole {
		t.Errorf("it took %.2f times what the link takes", took.Seconds()/whole)
	}
	if most := y.together.Load(); most > 4 {
		t.Errorf("%d machines loaded at the same time, of two slots", most)
	}
}
