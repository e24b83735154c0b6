package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Events happen in the order of their moments. Events of one moment happen in the order in which they were made, in
// both queues.
func TestClockKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var c clock
	var made, came []event
	put := func() {
		made = append(made, event{seq: uint64(len(made) + 1)})
		e := &made[len(made)-1]
		if r.IntN(3) == 0 {
			e.at = c.now + 100
			c.after(100, 0, 0, 0)
			return
		}
		e.at = c.now + time.Duration(r.Int64N(1<<r.IntN(34)))
		c.at(e.at, 0, 0, 0)
	}
	for range 1000 {
		put()
	}
	for {
		e, ok := c.next()
		if !ok {
			break
		}
		came = append(came, e)
		for range r.IntN(3) {
			if len(made) < 50_000 {
				put()
			}
		}
	}
	slices.SortFunc(made, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
	if !slices.Equal(came, made) {
		t.Errorf("%d events came, %d were made, or they came in another order", len(came), len(made))
	}
	if c.at(c.now-5, 0, 0, 0); c.queue.used == 0 {
		t.Error("an event of the past is lost")
	}
	if e, _ := c.next(); e.at != c.now {
		t.Errorf("an event of the past came at %v, now is %v", e.at, c.now)
	}
}
