package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// display is a terminal as the table needs one: it wraps and scrolls, and remembers that it had to.
type display struct {
	width, height     int
	cells             [][]rune
	x, y              int
	wrapped, scrolled bool
}

func newDisplay(width, height int) *display {
	d := &display{width: width, height: height}
	for range height {
		d.cells = append(d.cells, nil)
	}
	return d
}

// write takes what a program sends.
func (d *display) write(s string) {
	for len(s) > 0 {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			end := strings.IndexFunc(rest, func(r rune) bool { return r >= '@' && r <= '~' })
			d.control(rest[:end+1])
			s = rest[end+1:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		switch r {
		case '\r':
			d.x = 0
		case '\n':
			d.down()
		default:
			d.put(r)
		}
	}
}

func (d *display) down() {
	if d.y++; d.y == d.height {
		d.y, d.scrolled = d.height-1, true
		d.cells = append(d.cells[1:], nil)
	}
}

func (d *display) put(r rune) {
	w := runewidth.RuneWidth(r)
	if d.x+w > d.width {
		d.wrapped, d.x = true, 0
		d.down()
	}
	for len(d.cells[d.y]) <= d.x {
		d.cells[d.y] = append(d.cells[d.y], ' ')
	}
	d.cells[d.y] = append(d.cells[d.y][:d.x], r)
	d.x += w
}

func (d *display) control(s string) {
	switch s {
	case "H":
		d.x, d.y = 0, 0
	case "K": // in the last column a terminal still stands on it
		if at := min(d.x, d.width-1); at < len(d.cells[d.y]) {
			d.cells[d.y] = d.cells[d.y][:at]
		}
	case "J":
		for y := d.y; y < d.height; y++ {
			if y > d.y || d.x == 0 {
				d.cells[y] = nil
			}
		}
	case "2J":
		for y := range d.cells {
			d.cells[y] = nil
		}
	}
}

func (d *display) String() string {
	var b strings.Builder
	for _, line := range d.cells {
		fmt.Fprintln(&b, strings.TrimRight(string(line), " "))
	}
	return b.String()
}

// manyNodes is a fleet of n nodes in all states, some with what nodes may say of themselves.
func manyNodes(n int) []api.Node {
	var out []api.Node
	for i := range n {
		state := []trace.State{trace.Up, trace.Up, trace.Booting, trace.Up, trace.Down}[i%5]
		if i%500 == 7 {
			state = trace.Failed
		}
		x := watchedNode(
			fmt.Sprintf("a-node-with-a-name-that-is-too-long-%05d", i),
			state,
			trace.Root,
			time.Duration(i)*time.Millisecond,
			map[string]int64{"k": 14_200_000, "server": 33_100_000, "peer": 1 << 40, "cache": 12},
		)
		if state == trace.Failed {
			x.Boot.Failure = strings.Repeat("磁盘错误 ", 20) + "\x1b[2J\x07\u202e" + "GET http://10.0.0.1"
		}
		out = append(out, x)
	}
	return out
}

// TestWatchOnTerminals: on none of them does a line wrap or the screen scroll, whatever nodes say, and the last
// column is not lost.
func TestWatchOnTerminals(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {17, 5}, {80, 2}, {1, 1}} {
		for _, n := range []int{0, 3, 10_000} {
			d := newDisplay(size[0], size[1])
			v := watchView{nodes: manyNodes(n), now: zero}
			for range 2 {
				d.write(hideCursor + cursorHome + v.render(size[0], size[1]) + clearBelow)
			}
			if d.wrapped || d.scrolled {
				t.Errorf(
					"%d nodes on %dx%d: wrapped %v, scrolled %v\n%s",
					n,
					size[0],
					size[1],
					d.wrapped,
					d.scrolled,
					d,
				)
			}
			if n == 10_000 && size == [2]int{80, 24} {
				golden(t, "watch_many.txt", d.String())
			}
		}
	}
}

// badDay is a site on which everything happens at once.
func badDay() api.Status {
	s := api.Status{
		Release: "1.2.3",
		Started: zero,
		Time:    zero.Add(26 * time.Hour),
		Policy:  api.Policy{Adoption: fleet.Approve, Naming: "pc[001-]"},
		DHCP: api.DHCP{
			Mode:      "own",
			Interface: "eth1",
			Range:     "10.0.0.100-10.0.3.250",
			StoodDown: true,
			Others:    []string{"10.0.0.3"},
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

// TestStatusOnOneScreen: what wants attention is there and first, and all of it fits.
func TestStatusOnOneScreen(t *testing.T) {
	show := func(s api.Status, width, height int) *display {
		d := newDisplay(width, height)
		for _, line := range fitted(statusParts("https://boot.example:8481", s, zero.Add(26*time.Hour)), height-1) {
			d.write(strings.TrimRight(cut(line, width), " ") + "\r\n")
		}
		if d.wrapped || d.scrolled {
			t.Errorf("%dx%d: wrapped %v, scrolled %v\n%s", width, height, d.wrapped, d.scrolled, d)
		}
		return d
	}
	text := show(badDay(), 80, 24).String()
	for _, want := range []string{"212 failed:", "to do: look at the cable", "WARNING: no addresses are " +
		"given", "WARNING: little room", "room-000-1", "halted",
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
		DHCP: api.DHCP{Mode: "proxy", Interface: "eth1"},
	}
	golden(t, "status.txt", "a bad day\n"+text+"\na quiet one\n"+show(quiet, 80, 24).String())
	for _, size := range [][2]int{{80, 50}, {132, 43}, {40, 12}, {20, 5}, {80, 2}} {
		show(badDay(), size[0], size[1])
	}
	if n := len(fitted(statusParts("s", badDay(), zero), 1<<30)); n < 300 {
		t.Errorf("where it is not a terminal, %d lines are left of all", n)
	}
}

// TestNodesDoNotSteerTerminals: what a node says is text, in lines of events too.
func TestNodesDoNotSteerTerminals(t *testing.T) {
	e := trace.Event{
		Stage:   trace.Init,
		Kind:    trace.Fail,
		Message: "\x1b]0;title\x07 \x1b[2Jgone\r\nnext",
		Hint:    "\u009b31m",
		Attrs:   map[string]string{"a": "\x1b[8m"},
	}
	if got := eventText(e); strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
		t.Errorf("%q", got)
	}
	for in, want := range map[string]string{"磁盘错误": "磁盘~", "磁a盘": "磁a盘", "é́́́́́́́́": "é́́́́́́́́", "a\tb\x00c": "a b c"} {
		if got := cut(in, 5); got != want || runewidth.StringWidth(got) > 5 {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
