package trace

import (
	"strings"
	"testing"
	"time"
)

// Every longer time between two stages has a text that says what ran in it.
func TestGaps(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var events []Event
	add := func(second float64, stage Stage, kind Kind, message string) {
		events = append(events, Event{Time: at.Add(time.Duration(second * float64(time.Second))), Stage: stage,
			Kind: kind, Message: message})
	}
	add(0, DHCP, Begin, "")
	add(1, DHCP, End, "")
	add(9, BootFile, Begin, "")
	add(10, BootFile, End, "")
	add(11, Script, End, "")
	add(11, Initramfs, Begin, "")
	add(14, Initramfs, End, "")
	add(20, Init, End, "")
	events[len(events)-1].Attrs = map[string]string{AttrKernel: "5s"}
	add(21, SwitchRoot, Begin, "")
	add(22, SwitchRoot, End, "")
	add(60, SwitchRoot, Info, WaitsFor+"dev-sdb.device")
	add(70, Booted, Fail, "the node's state is away")
	add(110, Booted, End, "")
	add(300, Shutdown, End, "")
	units := []Span{
		{Name: "slow.service", Start: 25 * time.Second, Took: 20 * time.Second},
		{Name: "quick.service", Start: 24 * time.Second, Took: 2 * time.Second},
		{Name: "late.service", Start: 100 * time.Second, Took: 10 * time.Second},
		{Name: "after.service", Start: 120 * time.Second, Took: 10 * time.Second},
	}
	got := NewTimeline(events).Gaps(units, events)
	want := []struct {
		before      Stage
		start, took int
		says        string
	}{
		{BootFile, 1, 8, "asks for a boot file"},
		{Init, 14, 6, "starts the kernel (1s), which unpacks its initramfs (5s)"},
		{Booted, 22, 88, "systemd started slow.service (20s), late.service (10s), quick.service (2s); for 55s from " +
			"45s on no unit was starting; at 1m0s systemd waits for dev-sdb.device"},
	}
	if len(got) != len(want) {
		t.Fatalf("gaps %+v", got)
	}
	for i, w := range want {
		g := got[i]
		if g.Before != w.before || g.Start != time.Duration(w.start)*time.Second ||
			g.Took != time.Duration(w.took)*time.Second || !strings.Contains(g.Text, w.says) {
			t.Errorf("gap %d: %+v, want %+v", i, g, w)
		}
	}
}
