package admission

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

func mac(i byte) fleet.MAC { return fleet.MAC{2, 0, 0, 0, 0, i} }

// fastQueue returns a queue with two slots at 1 Gb/s, where a load takes less than a second.
func fastQueue(now func() time.Time) *Queue {
	return New(netboot.Links{Server: 125e6, Node: 125e6}, now)
}

// twoSlots returns a queue of two slots.
func twoSlots() *Queue {
	return New(netboot.Links{Node: 1e6, Server: 1e6}, time.Now)
}

// Machines that are switched off while they load leave the link free, though none reports it.
func TestBusyEndsInSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, told := twoSlots(), []bool{}
		q.Busy = func(b bool) { told = append(told, b) }
		for i := range byte(q.Status().Slots) {
			if answer := q.Request(fleet.MAC{2, 0, 0, 0, 0, i}); answer.Place != 0 {
				t.Fatalf("machine %d waits: %+v", i, answer)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("the tracker was told %v", told)
		}
	})
}

// A running node that loads its next kernel waits in the same queue as machines whose firmware waits. It leaves the
// queue when its request is cancelled.
func TestRunningNodesStandInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := twoSlots()
		slots := q.Status().Slots
		var loads []Transfer
		for i := range byte(slots) {
			q.Request(fleet.MAC{2, 0, 0, 0, 0, i})
			loads = append(loads, q.Begin(fleet.MAC{2, 0, 0, 0, 0, i}))
		}
		begin, came := time.Now(), time.Duration(0)
		go func() {
			if err := q.Admit(t.Context(), fleet.MAC{2, 0, 0, 0, 1, 0}); err != nil {
				t.Error(err)
			}
			came = time.Since(begin)
		}()
		time.Sleep(7 * time.Second)
		if came != 0 {
			t.Errorf("it loads after %s, beside %d others", came, slots)
		}
		loads[0].End()
		time.Sleep(7 * time.Second)
		if came < 7*time.Second {
			t.Errorf("it loads after %s, want when one has done", came)
		}
		gone, hangUp := context.WithCancel(t.Context())
		hangUp()
		if err := q.Admit(gone, fleet.MAC{2, 0, 0, 0, 1, 1}); err == nil {
			t.Error("one who hung up has a turn")
		}
	})
}

// Machines that use less than half of their links leave room for more, also for machines whose requests are held open.
func TestAdmissionWithSlowFirmware(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := fastQueue(func() time.Time { return now })
	var loads []Transfer
	for i := range byte(2) {
		q.Request(mac(i))
		loads = append(loads, q.Begin(mac(i)))
	}
	for i := range byte(3) {
		q.Request(mac(i + 2))
		_, leave := q.Hold(mac(i+2), 2*time.Second)
		t.Cleanup(leave)
	}
	const tenth = 1_500_000 // bytes in a tenth of a second, with firmware at 120 Mb/s
	for round := range 2 {
		for left := int64(15); left >= 0; left-- {
			now = now.Add(100 * time.Millisecond)
			loads[1].Sent(tenth, math.MaxInt64)
			loads[0].Sent(tenth, left*tenth)
		}
		if got := q.Status().Slots; (got > 2) != (round == 1) {
			t.Errorf("after %d loads: %d slots", round+1, got)
		}
		loads[0] = q.Begin(mac(2))
	}
	if got := q.Status(); got.Waiting != 0 || got.Loading != 4 || len(q.waiting) != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// A machine that is gone while its request is held open is not admitted.
func TestAdmissionHangsUp(t *testing.T) {
	now := time.Unix(1e9, 0)
	q := fastQueue(func() time.Time { return now })
	for i := range byte(2) {
		q.Request(mac(i))
	}
	for i := range byte(2) {
		q.Request(mac(i + 2))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	q.Wait(ctx, mac(2), time.Minute)
	called, leave := q.Hold(mac(3), 2*time.Second)
	defer leave()
	q.Begin(mac(0)).End()
	<-called
	if answer := q.Request(mac(3)); answer.Place != 0 {
		t.Errorf("who was called: %+v", answer)
	}
	if answer := q.Request(mac(2)); answer.Place != 1 {
		t.Errorf("who hung up and asks again: %+v", answer)
	}
	if len(q.waiting) != 0 {
		t.Errorf("on the line: %v", q.waiting)
	}
}

// As many nodes load at once as fill the server's link, by the rates that nodes tell. Small changes of the mean do not
// reset the queue. A node that tells nothing, or an absurd rate, changes little.
func TestLinksThatNodesTell(t *testing.T) {
	q := fastQueue(time.Now)
	for i, x := range []struct {
		node  byte
		rate  int64
		slots int
		link  int64
	}{
		{0, 0, 2, 0},              // no rate
		{0, 1e9, 2, 125e6},        //
		{0, 100e6, 20, 12.5e6},    // a slower port
		{1, 100e6, 20, 12.5e6},    //
		{2, 1e9, 5, 50e6},         // mean of three
		{2, 1.1e9, 5, 54_166_666}, // small change
		{3, 1, 6, 40_656_250},     // no link is so slow
	} {
		q.SawLink(mac(x.node), x.rate)
		if s := q.Status(); s.Slots != x.slots || q.NodeLink() != x.link {
			t.Errorf("%d: %d slots, links of %d, want %d and %d", i, s.Slots, q.NodeLink(), x.slots, x.link)
		}
	}
}
