package server

import (
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// TestPstore: a log that a boot finds in pstore belongs to the earlier boot whose kernel ran last: that boot's console
// has it once, and its panic is a fault. The boot that reports it has no fault.
func TestPstore(t *testing.T) {
	s := startSite(t)
	s.addImage()
	n := s.node(1)
	died := n.replay(readRecorded(t), trace.Booted)
	s.clock.add(time.Hour)
	n.load() // a boot that only reached its loader
	s.clock.add(time.Hour)
	p := n.play(readRecorded(t))
	p.report(trace.Booted, time.Minute)
	text := "Panic#1 Part2\n<4>[ 7200.1] sysrq: Trigger a crash\nPanic#1 Part1\n<0>[ 7200.2] Kernel panic - not " +
		"syncing: sysrq triggered crash\n"
	for range 2 { // an answer was lost
		if e := p.post("/v1/node/events", "Bearer "+p.session,
			api.ReportRequest{Boot: p.boot, Uptime: 2 * time.Minute, Pstore: text}, nil); e != nil {
			t.Fatal(e)
		}
	}
	client := api.OverHandler(s.socketRoutes())
	b, err := client.Boot(t.Context(), died)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.Console, "sysrq triggered crash") != 1 ||
		!strings.Contains(b.Console, "found by the next boot, "+string(p.boot)) ||
		strings.Contains(b.Console, "<4>") {
		t.Errorf("console:\n%s", b.Console)
	}
	if got := len(panics(b)); got != 1 {
		t.Errorf("%d panics on its timeline", got)
	}
	if b, err = client.Boot(t.Context(), p.boot); err != nil || b.Fault != nil || b.Console != "" {
		t.Errorf("the boot after it: %+v, %q, %v", b.Fault, b.Console, err)
	}
	// Of a log that is too long, the end is kept.
	if e := p.post("/v1/node/events", "Bearer "+p.session,
		api.ReportRequest{Boot: p.boot, Uptime: 2 * time.Minute, Pstore: strings.Repeat("x\n", 100_000) + "the end"},
		nil); e != nil {
		t.Fatal(e)
	}
	if b, err = client.Boot(t.Context(), died); err != nil || !strings.Contains(b.Console, "sysrq triggered") ||
		!strings.HasSuffix(b.Console, "the end\n") {
		t.Errorf("console of %d bytes, %v", len(b.Console), err)
	}
}

func panics(b api.BootDetail) (out []trace.Event) {
	for _, e := range b.Events {
		if e.Attrs[trace.AttrPanic] != "" {
			out = append(out, e)
		}
	}
	return out
}
