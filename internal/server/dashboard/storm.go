package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/trace"
)

// A storm is at least stormLeast boots, each of which started at most stormGap after the one before.
const (
	stormLeast = 5
	stormGap   = time.Minute
)

// stormRow is a storm in a list.
type stormRow struct {
	Link     string // URL of its page
	Started  time.Time
	Boots    int
	Failures int
	P50, P95 time.Duration // duration of a boot
	Last     time.Duration // from the first packet until the last node was up
}

// mostStorms is how many storms one page lists.
const mostStorms = 8

// stormsOf finds storms among past boots, newest first.
func stormsOf(past []api.PastBoot) []stormRow {
	boots := oldestFirst(past)
	starts := make([]time.Time, len(boots))
	for i, b := range boots {
		starts[i] = b.Started
	}
	var out []stormRow
	for _, s := range trace.BootStorms(starts, stormGap, stormLeast) {
		row := sumStorm(boots[s.First : s.Last+1])
		row.Link = "/storm?" + url.Values{"since": {stamp(starts[s.First])}, "until": {stamp(starts[s.Last])}}.Encode()
		out = append(out, row)
	}
	slices.Reverse(out)
	return out[:min(len(out), mostStorms)]
}

func oldestFirst(past []api.PastBoot) []api.PastBoot {
	boots := slices.Clone(past)
	slices.SortStableFunc(boots, func(a, b api.PastBoot) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Node, b.Node))
	})
	return boots
}

func sumStorm(boots []api.PastBoot) stormRow {
	row := stormRow{Started: boots[0].Started, Boots: len(boots)}
	var took []time.Duration
	for _, b := range boots {
		if total, ok := b.Ends[trace.Booted]; ok {
			took = append(took, total)
			row.Last = max(row.Last, b.Started.Sub(row.Started)+total)
		} else if b.State == trace.Failed {
			row.Failures++
		}
	}
	row.P50, row.P95 = trace.Percentile(took, 0.5), trace.Percentile(took, 0.95)
	return row
}

// stormView is the content of a storm's page: all its boots on one time scale.
type stormView struct {
	stormRow
	Lines    []stormLine
	Skipped  int // number of boots without a line, because there are too many
	Height   int
	Ticks    []tick
	Come     int    // number of boots that came up
	Up       string // number of nodes that are up over time, as points of a polyline
	Curves   curves // traffic of servers
	Feed     feedView
	Parts    []partRow
	Sources  []source
	FromPeer float64
	Refused  int // times that a node did not deliver kernel or initramfs
	Slowest  []api.PastBoot

	total time.Duration
	ups   []time.Duration // times at which nodes came up, in order
}

// stormLine is one boot, divided into firmware, initramfs and image.
type stormLine struct {
	ID, Label string
	Y         int
	Cuts      []stormCut
}

type stormCut struct {
	Part string
	Bar  bar
}

// partRow says how long one stage took in all boots.
type partRow struct {
	trace.Figures
	Name, Text, Part string
	Bar              bar
}

// mostLines is how many boots a storm's picture shows; lineHeight is the height of each in pixels.
const (
	mostLines  = 300
	lineHeight = 7
)

func (d *Dashboard) stormPage(r *http.Request) (view, error) {
	after := d.Feed.Last()
	q := r.URL.Query()
	since, err1 := time.Parse(time.RFC3339Nano, q.Get("since"))
	until, err2 := time.Parse(time.RFC3339Nano, q.Get("until"))
	if err1 != nil || err2 != nil {
		return view{}, api.NewError(
			api.BadRequest,
			"A storm is named by its first and its last start.",
			"The page of boots lists them.",
		)
	}
	past, err := d.API.History(
		r.Context(),
		api.HistoryQuery{Since: since, Until: until.Add(stormGoesOn), Limit: 10_000},
	)
	if err != nil {
		return view{}, err
	}
	boots := stormOf(oldestFirst(past), until)
	if len(boots) == 0 {
		return view{}, api.NewError(api.NotFound, "No boot of that time is kept.",
			"The page of boots lists the others.")
	}
	v := newStorm(boots)
	samples, err := d.API.HistorySamples(r.Context(), v.Started, v.Started.Add(min(v.total, stormLongest)))
	if err != nil {
		return view{}, err
	}
	told, err := d.API.HistorySenders(r.Context(), v.Started.Add(-stormGap), boots[len(boots)-1].Started.Add(stormGap))
	if err != nil {
		return view{}, err
	}
	v.Curves, v.Feed = newCurves(samples, v.Started, v.total, v.ups), newFeed(told, boots)
	page := view{template: "storm.html", title: "Storm", data: v}
	if d.Now().Sub(boots[len(boots)-1].Started) < stormGoesOn {
		page.live = url.Values{"boots": {"1"}, "tick": {"1"}, "after": {strconv.FormatInt(after, 10)}}.Encode()
	}
	return page, nil
}

// stormGoesOn is how long after its last start a storm may still change. stormLongest is the longest storm whose
// samples are shown.
const (
	stormGoesOn  = 30 * time.Minute
	stormLongest = 23 * time.Hour
)

// stormOf returns the boots of a storm that was known until a moment, and boots that started soon after them: a storm
// may go on while somebody looks at it.
func stormOf(boots []api.PastBoot, until time.Time) []api.PastBoot {
	for i, b := range boots {
		if b.Started.After(until) && (i == 0 || b.Started.Sub(boots[i-1].Started) > stormGap) {
			return boots[:i]
		}
	}
	return boots
}

func newStorm(boots []api.PastBoot) stormView {
	v := stormView{stormRow: sumStorm(boots)}
	v.total = max(v.Last, boots[len(boots)-1].Started.Sub(v.Started), time.Second)
	v.Ticks = ticks(v.total)
	bytes, ends := map[string]int64{}, []trace.Ends{}
	step := (len(boots) + mostLines - 1) / mostLines
	for i, b := range boots {
		addBytes(bytes, b.Bytes)
		v.Refused += b.Refused
		at := b.Started.Sub(v.Started)
		if took, ok := b.Ends[trace.Booted]; ok {
			ends = append(ends, b.Ends)
			v.ups = append(v.ups, at+took)
		}
		if i%step != 0 {
			v.Skipped++
			continue
		}
		v.Lines = append(v.Lines, newStormLine(b, at, v.total, len(v.Lines)*lineHeight))
	}
	slices.Sort(v.ups)
	v.Height = len(v.Lines) * lineHeight
	v.Come, v.Up = len(v.ups), upLine(v.ups, len(boots), v.total)
	v.Sources, v.FromPeer = sources(bytes), peerShare(bytes)
	v.Parts = partRows(ends)
	v.Slowest = slowestBoots(boots)
	return v
}

func newStormLine(b api.PastBoot, at, total time.Duration, y int) stormLine {
	line := stormLine{ID: string(b.ID), Y: y, Label: b.Node + ": " + string(b.State)}
	if took, ok := b.Ends[trace.Booted]; ok {
		line.Label = b.Node + ": up after " + span(took)
	}
	for _, p := range trace.Ends(b.Ends).Parts() {
		part := partOf(p.Stage)
		if n := len(line.Cuts); n > 0 && line.Cuts[n-1].Part == part {
			from := line.Cuts[n-1].Bar.X
			end := newBar(at+p.Start, p.Took, total)
			line.Cuts[n-1].Bar.Width = max(end.X+end.Width-from, barLeast)
			continue
		}
		line.Cuts = append(line.Cuts, stormCut{part, newBar(at+p.Start, p.Took, total)})
	}
	if b.State == trace.Failed {
		line.Cuts = append(line.Cuts, stormCut{"bad", newBar(at+b.Elapsed, 0, total)})
	}
	return line
}

// upLine returns the number of nodes that are up over time, on a field of 1000 by 100.
func upLine(ups []time.Duration, boots int, total time.Duration) string {
	var s strings.Builder
	s.WriteString("0,100")
	for i, at := range ups {
		x := float64(at) * 1000 / float64(total)
		fmt.Fprintf(
			&s,
			" %.1f,%.1f %.1f,%.1f",
			x,
			100-float64(i)*headroom/float64(boots),
			x,
			100-float64(i+1)*headroom/float64(boots),
		)
	}
	fmt.Fprintf(&s, " 1000,%.1f", 100-float64(len(ups))*headroom/float64(boots))
	return s.String()
}

// partRows returns how long each stage took in all boots.
func partRows(boots []trace.Ends) []partRow {
	took := map[trace.Stage][]time.Duration{}
	most := time.Second
	for _, b := range boots {
		for _, p := range b.Parts() {
			took[p.Stage] = append(took[p.Stage], p.Took)
		}
	}
	var out []partRow
	for _, s := range trace.Stages() {
		if len(took[s]) > 0 {
			f := trace.NewFigures(s, took[s])
			most = max(most, f.P95)
			out = append(out, partRow{Figures: f, Name: string(s), Text: stageText(s), Part: partOf(s)})
		}
	}
	for i := range out {
		out[i].Bar = newBar(0, out[i].P50, most)
	}
	return out
}

// slowestBoots returns the boots that took longest.
func slowestBoots(boots []api.PastBoot) []api.PastBoot {
	out := slices.Clone(boots)
	slices.SortStableFunc(out, func(a, b api.PastBoot) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	return out[:min(len(out), 5)]
}
