package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/output"
	"pando/internal/terminal"
	"pando/internal/trace"
)

// watchView is the content of the live table. render depends only on it, so tests compare the table as text.
type watchView struct {
	nodes []api.Node
	now   time.Time
	read  time.Time             // when nodes were read
	lost  *api.UnreachableError // not nil: the server does not answer
	top   int                   // index of the first node that is shown
	keys  bool                  // keys scroll the table
}

// The widths of columns. With the gaps between columns they leave 24 of 80 columns for bytes. On a wider terminal names
// and bytes share the additional space.
const (
	nameWidth  = 16
	stageWidth = 12
	trackWidth = 16 // one mark per stage up to booted
	timeWidth  = 8
)

// render draws the table in at most width columns and height lines.
func (v watchView) render(width, height int) string {
	name := max(nameWidth, min(32, nameWidth+(width-80)/2))
	var out []string
	line := func(s string) { out = append(out, s) }
	line(v.summary())
	line(
		fmt.Sprintf(
			"%-*s %-*s %-*s %*s %s",
			name,
			"NODE",
			stageWidth,
			"STAGE",
			trackWidth,
			"",
			timeWidth,
			"TIME",
			"RECEIVED",
		),
	)
	rows := slices.Clone(v.nodes)
	slices.SortStableFunc(rows, func(a, b api.Node) int { return urgency(a) - urgency(b) })
	top, room, more := v.topFor(height), tableRoom(height), ""
	if len(rows) > room {
		rows = rows[top:min(len(rows), top+max(1, room-1))]
		more = fmt.Sprintf("... and %d more", len(v.nodes)-len(rows))
		if v.keys {
			more = fmt.Sprintf(
				"%d to %d of %d; arrows and page keys turn to others, q ends",
				top+1,
				top+len(rows),
				len(v.nodes),
			)
		}
	}
	for _, n := range rows {
		line(v.row(n, name))
	}
	if more != "" {
		line(more)
	}
	return terminal.Lines(out, width, height)
}

// urgency returns the sort order of the table: failed, booting, waiting for adoption, up, others.
func urgency(n api.Node) int {
	switch {
	case n.Boot != nil && slices.Contains([]trace.State{trace.Failed, trace.Silent, trace.Degraded}, n.Boot.State):
		return 0
	case n.Boot != nil && n.Boot.State == trace.Booting:
		return 1
	case !adopted(n):
		return 2
	case n.Boot != nil && n.Boot.State == trace.Up:
		return 3
	}
	return 4
}

func (v watchView) summary() string {
	if v.lost != nil {
		return fmt.Sprintf(
			"%s  NO ANSWER for %s from %s; as it was then:",
			v.now.Local().Format("15:04:05"),
			output.Span(v.now.Sub(v.read)),
			v.lost.Server,
		)
	}
	var up, on, waiting int
	bad := map[trace.State]int{}
	total := map[string]int64{}
	for _, n := range v.nodes {
		switch urgency(n) {
		case 0:
			bad[n.Boot.State]++
		case 1:
			on++
		case 2:
			waiting++
		case 3:
			up++
		}
		if n.Boot != nil {
			for k, x := range n.Boot.Bytes {
				total[k] += x
			}
		}
	}
	s := fmt.Sprintf("%s  %d booted, %d booting, %d failed", v.now.Local().Format("15:04:05"), up, on,
		bad[trace.Failed])
	for _, state := range []trace.State{trace.Degraded, trace.Silent} {
		if bad[state] > 0 {
			s += fmt.Sprintf(", %d %s", bad[state], state)
		}
	}
	if waiting > 0 {
		s += fmt.Sprintf(", %d to adopt", waiting)
	}
	if got := output.BySource(total); got != "" {
		s += "  " + got
	}
	return s
}

func (v watchView) row(n api.Node, name int) string {
	stage, track, took, got := "discovered", "", "", ""
	if adopted(n) {
		stage = "never booted"
	}
	if b := n.Boot; b != nil {
		stage, track = string(b.Stage), progressTrack(b)
		took, got = output.Span(elapsed(b, v.now)), output.BySourceShort(b.Bytes)
		if b.State == trace.Failed {
			stage, got = "! "+stage, b.Failure
		}
		if b.State == trace.Down || b.State == trace.Silent || b.State == trace.Degraded {
			stage = string(b.State)
		}
	}
	row := fmt.Sprintf(
		"%-*s %-*s %-*s %*s %s",
		name,
		terminal.Cut(n.Name, name),
		stageWidth,
		terminal.Cut(stage, stageWidth),
		trackWidth,
		track,
		timeWidth,
		took,
		got,
	)
	return strings.TrimRight(row, " ")
}

// progressTrack returns one mark per stage: '#' passed, '>' active, '!' failed, '.' to come.
func progressTrack(b *api.Boot) string {
	at, last := trace.Rank(b.Stage), trace.Rank(trace.Booted)
	var t strings.Builder
	for i := range last + 1 {
		switch {
		case i < at || b.State.Reached() || b.State == trace.Down:
			t.WriteByte('#')
		case i == at && b.State == trace.Failed:
			t.WriteByte('!')
		case i == at:
			t.WriteByte('>')
		default:
			t.WriteByte('.')
		}
	}
	return t.String()
}
