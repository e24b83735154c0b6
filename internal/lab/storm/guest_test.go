package storm

import (
	"strings"
	"testing"

	"pando/internal/bench"
)

// A run of rivals is compared with Pando's on the same links. What only Pando's machines load over the links does not
// count against rivals.
func TestGuestRows(t *testing.T) {
	run := func(system string, rate int64, sinceInit float64) guestRun {
		g := guestRun{System: system, Guests: 2, Rate: rate, ServerSent: 10e6, BootSet: 2e6}
		received := int64(0)
		if system == bench.PandoWay {
			received = 2e6
		}
		g.add(
			[]guest{
				{booted: 50, sinceInit: sinceInit, received: received},
				{booted: 40, sinceInit: sinceInit / 2, received: received},
			},
			make([]error, 2),
		)
		return g
	}
	r := &report{
		BootSet: 2e6,
		Guests: []guestRun{
			run(bench.PandoWay, 20e6, 10),
			run("nfs", 20e6, 30),
			run(bench.PandoWay, 10e9, 10),
			run("nfs", 10e9, 11),
			run("nfs", 5e6, 11),
		},
	}
	for i, want := range []string{
		"pando|2|20mbit|-|10.0 s|1.00|50 s|4.0 MB|2.00|10.0 MB|0 %",
		"nfs|2|20mbit|-|30.0 s|3.00|-|9.6 MB|4.78|-|0 %",
		"pando|2|10gbit|-|10.0 s|1.00|50 s|4.0 MB|2.00|10.0 MB|0 %",
		"nfs|2|10gbit|-|11.0 s|1.10|-|9.6 MB|4.78|-|0 %",
		"nfs|2|5mbit|-|11.0 s|-|-|9.6 MB|4.78|-|0 %",
	} {
		if got := strings.Join(r.guestRows()[i], "|"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got := (&Storm{}).guestSystems(); len(got) != 1+len(withGuests) || got[0] != bench.PandoWay {
		t.Errorf("clocks are right: %v", got)
	}
	if got := (&Storm{skew: 1}).guestSystems(); len(got) != 1 {
		t.Errorf("clocks are wrong: %v", got)
	}
}
