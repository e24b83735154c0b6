package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/terminal"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// badDay is the status of a site with every kind of problem.
func badDay() api.Status {
	s := api.Status{
		Release: "1.2.3",
		Started: zero,
		Time:    zero.Add(26 * time.Hour),
		Policy:  api.Policy{Adoption: fleet.Approve, Naming: "pc[001-]"},
		DHCP: api.DHCP{
			Mode:       "own",
			Interfaces: []string{"eth1"},
			Range:      "10.0.0.100-10.0.3.250",
			StoppedFor: "10.0.0.3",
			Others:     []string{"10.0.0.3"},
			Addresses:  api.DHCPAddresses{All: 919, Known: 850, Unknown: 12},
		},
		Loads:  api.Loads{Slots: 10, Loading: 10, Waiting: 3800, Expect: 570 * time.Second},
		Failed: 212,
		Nodes: map[string]int{
			"adopted":    10_000,
			"booted":     5_788,
			"booting":    4_000,
			"failed":     212,
			"drift":      31,
			"discovered": 4,
		},
		Stages: map[trace.Stage]int{
			trace.DHCP:   12,
			trace.Script: 3800,
			trace.Root:   188,
		},
		Bytes: map[string]int64{"k": 1 << 37, "server": 1 << 33, "peer": 1 << 42},
	}
	for i := range 9 {
		s.Trouble = append(s.Trouble, api.Boot{Node: fmt.Sprintf("pc%05d", i), Fault: &api.Fault{
			Text: "no answer from the server since stage root for " + strings.Repeat(
				"a very long while ",
				5,
			) + "\x1b[31m", Do: "look at the cable, 看看电缆, " + strings.Repeat("and then at the switch ", 5)}})
	}
	for i := range 300 {
		s.Groups = append(
			s.Groups,
			api.Group{Group: fleet.Group{Name: fmt.Sprintf("room-%03d", i), Image: "lab:latest"}, Nodes: 33},
		)
		s.Full = append(s.Full, fmt.Sprintf("pc%05d", i*7))
	}
	for i := range 12 {
		s.Rollouts = append(
			s.Rollouts,
			api.Rollout{
				Rollout: fleet.Rollout{ID: fmt.Sprintf("room-%03d-1", i), State: fleet.RolloutHalted, Wave: 1, Waves: 4,
					Asked: "lab:next", Created: zero, Reason: "node pc2: units failed that had not failed before: " +
						"display.service"},
				Phases: map[fleet.RolloutPhase]int{fleet.PhasePassed: 2, fleet.PhaseFailed: 1, fleet.PhaseWaiting: 30},
			},
		)
	}
	return s
}

// TestStatusOnOneScreen: problems come first, and the output fits on the screen.
func TestStatusOnOneScreen(t *testing.T) {
	show := func(s api.Status, width, height int) *testkit.Display {
		d := testkit.NewDisplay(width, height)
		for _, line := range fitted(statusParts("https://boot.example:8481", s, zero.Add(26*time.Hour)), height-1) {
			d.Write(strings.TrimRight(terminal.Cut(line, width), " ") + "\r\n")
		}
		if d.Wrapped || d.Scrolled {
			t.Errorf("%dx%d: wrapped %v, scrolled %v\n%s", width, height, d.Wrapped, d.Scrolled, d)
		}
		return d
	}
	text := show(badDay(), 80, 24).String()
	for _, want := range []string{"212 failed:", "to do: look at the cable", "WARNING: this server stopped giving " +
		"addresses", "WARNING: little room", "room-000-1", "halted",
		"pando boot list --failed", "pando rollout list"} {
		if !strings.Contains(text, want) {
			t.Errorf("not on the screen: %s", want)
		}
	}
	quiet := api.Status{
		Release: "1.2.3",
		Started: zero,
		Time:    zero.Add(time.Hour),
		Nodes:   map[string]int{"adopted": 3, "booted": 3},
		Groups: []api.Group{
			{Group: fleet.Group{Name: "default", Image: "lab"}, Nodes: 3},
		},
		DHCP: api.DHCP{Mode: "proxy", Interfaces: []string{"eth1"}},
	}
	testkit.Golden(t, *update, "status.txt", "a bad day\n"+text+"\na quiet one\n"+show(quiet, 80, 24).String())
	for _, size := range [][2]int{{80, 50}, {132, 43}, {40, 12}, {20, 5}, {80, 2}} {
		show(badDay(), size[0], size[1])
	}
	if n := len(fitted(statusParts("s", badDay(), zero), 1<<30)); n < 300 {
		t.Errorf("where it is not a terminal, %d lines are left of all", n)
	}
}
