package dashboard

import (
	"cmp"
	"fmt"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/trace"
)

// mood is the state of a node that the colour of its tile shows.
type mood string

// The moods, the most urgent first.
const (
	failed     mood = "failed"
	silent     mood = "silent"   // booted, and not seen for a while
	degraded   mood = "degraded" // booted, with failed units
	booting    mood = "booting"
	discovered mood = "discovered"
	booted     mood = "booted"
	down       mood = "down"
	never      mood = "never" // adopted, not booted yet
)

// moods lists every mood, the most urgent first.
var moods = [...]mood{failed, silent, degraded, booting, discovered, booted, down, never}

// tile is one node on the map.
type tile struct {
	node    fleet.Node
	boot    fleet.BootID
	fold    trace.Progress // of its latest boot; State "" if it never booted
	state   trace.State    // of that boot, from the API or a later event
	seen    time.Time
	running fleet.Digest
	desired fleet.Digest

	rev int64 // revision of the board at the tile's last change
}

// newTile returns the tile of a node of the API.
func newTile(n api.Node) tile {
	t := tile{node: n.Node, seen: n.Seen, running: n.Running, desired: n.Desired}
	if b := n.Boot; b != nil {
		t.boot, t.state = b.ID, b.State
		t.fold = trace.Progress{
			State:   b.State,
			Stage:   b.Stage,
			Started: b.Started,
			Updated: b.Updated,
			Failure: b.Failure,
			Hint:    b.Hint,
		}
		if b.State == trace.Failed {
			t.fold.Broken = b.Stage
		}
		if b.State.Reached() {
			t.fold.State = trace.Up
		}
		if b.State.Reached() || b.State == trace.Down {
			t.fold.Ready = b.Started.Add(b.Elapsed)
		}
	}
	return t
}

// apply updates the tile by an event of its node.
func (t *tile) apply(e trace.Event) {
	if e.Boot == "" || e.Boot != t.boot && e.Time.Before(t.fold.Started) {
		return // an event of an earlier boot
	}
	if e.Boot != t.boot {
		t.boot, t.fold, t.running = e.Boot, trace.Progress{}, ""
	}
	was := t.fold.State
	t.fold.Apply(e)
	if t.fold.State != was || t.state == trace.Silent {
		t.state = t.fold.State // the API's state replaces this when the fleet is read again
	}
	t.fold.Bytes = nil // the map does not show bytes
	if e.Time.After(t.seen) {
		t.seen = e.Time
	}
}

// mood returns the tile's mood.
func (t *tile) mood() mood {
	switch {
	case t.node.State == fleet.Discovered:
		return discovered
	case t.boot == "":
		return never
	}
	return bootMood(t.state)
}

// drift reports whether a reboot would change what the node runs.
func (t *tile) drift() bool { return t.running != "" && t.desired != "" && t.running != t.desired }

// label describes the tile in words, for the pointer's text and for screen readers.
func (t *tile) label() string {
	m := t.mood()
	text := t.node.Name + ": " + word(m)
	switch m {
	case booting:
		text += ", " + string(t.fold.Stage)
	case failed:
		text += " at " + string(cmp.Or(t.fold.Broken, t.fold.Stage))
		if t.fold.Failure != "" {
			text += ": " + t.fold.Failure
		}
	case silent:
		text += " since " + t.seen.Local().Format("15:04")
	case degraded:
		text += ": units failed"
	case booted:
		text += " in " + span(t.fold.Elapsed())
	}
	if t.drift() {
		text += fmt.Sprintf(", runs %s, would boot %s", t.running.Short(), t.desired.Short())
	}
	return text
}

// steps is the number of stages until booted.
var steps = trace.Rank(trace.Booted)

// class returns the tile's classes of the style sheet: its mood, how far it is filled (p0 to p15), and drift.
func (t *tile) class(versions *legend) string {
	m := t.mood()
	c := "t " + string(m)
	if m == booting || m == failed {
		c += fmt.Sprintf(" p%d", min(max(trace.Rank(t.fold.Stage), 0), steps))
	}
	if t.drift() {
		c += " drift"
	}
	if versions != nil && (m == booted || m == silent || m == degraded) {
		c += " " + versions.class(t.running)
	}
	return c
}

// legend gives versions their colours, the most used first. From the seventh on they share one.
type legend struct {
	versions []versionCount
	place    map[fleet.Digest]int
}

type versionCount struct {
	Digest fleet.Digest
	Nodes  int
	Class  string
}

const hues = 6

func (l *legend) class(v fleet.Digest) string {
	if i, ok := l.place[v]; ok && i < hues {
		return fmt.Sprintf("v%d", i+1)
	}
	return "v0"
}
