package admit

import (
	"testing"
	"time"

	"pando/internal/sim"
	"pando/internal/testkit"
)

// fillWithin is how long a storm of machines may take to load K, in units of what the server's link takes for it.
// It is 1.0, and was 1.5 to 1.6 when all who waited slept.
const fillWithin = 1.3

// Sixteen machines are switched on at once and take turns, two at a time, at the link of a server that is no faster
// than theirs: the link is hardly ever idle, though all of them do what iPXE does with their scripts, which sleep
// for whole seconds.
func TestAdmissionFillsTheLink(t *testing.T) {
	const machines, rate = 16, 100 * testkit.Mbit
	l := newLoaders(t, machines+1, 4<<20, rate, rate)
	if err := l.load(t.Context(), machines, &tally{}); err != nil { // the server packs its agent for the first one
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
