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
	"pando/internal/fleet"
	"pando/internal/trace"
)

// liveOf returns the query of an event stream about one node or boot.
func liveOf(key, value string, after int64) string {
	return url.Values{key: {value}, "after": {strconv.FormatInt(after, 10)}}.Encode()
}

// bar is a span on a scale of 1000.
type bar struct{ X, Width int }

// barLeast is the least width of a bar, so that short steps stay visible.
const barLeast = 3

func newBar(start, took, total time.Duration) bar {
	if total <= 0 {
		return bar{0, barLeast}
	}
	from := min(max(int(int64(start)*1000/int64(total)), 0), 1000-barLeast)
	to := min(int(int64(start+took)*1000/int64(total)), 1000)
	return bar{from, max(to-from, barLeast)}
}

// row is one row of a waterfall.
type row struct {
	Name, Text  string // the name, and an explanation
	Part        string // class of the style sheet: "firmware", "agent", "image", "unit"
	Start, Took time.Duration
	Moment      bool // a point in time
	Open        bool
	Chain       bool // for a unit: the default target waited for it
	Attempt     int
	Failure     string
	Hint        string
	Message     string
	Received    int64
	Bar         bar // the duration that the stage itself reported
	Wait        bar // the time since the end of the previous stage
	Gap         *api.Gap
}

// bootPageView is the content of a boot's page.
type bootPageView struct {
	Boot      api.BootDetail
	Mood      mood
	Rows      []row
	Units     []row
	Chained   bool   // some units are on the critical chain
	UnitTicks []tick // the scale of units starts when systemd starts
	Ticks     []tick
	Sources   []source
	Stalled   time.Duration
	Rejects   int64
	Total     time.Duration
	Slowest   string
	Console   string
}

// tick is a mark on a scale.
type tick struct {
	X    int
	Text string
}

func (d *Dashboard) bootPage(r *http.Request) (view, error) {
	after := d.Feed.Last()
	b, err := d.API.Boot(r.Context(), fleet.BootID(r.PathValue("id")))
	if err != nil {
		return view{}, err
	}
	v := bootPageView{Boot: b, Sources: sources(b.Bytes), Mood: bootMood(b.State), Total: bootEnd(b, d.Now())}
	v.Console = strings.Join(b.ConsoleLines(), "\n")
	v.Rows = waterfall(b, v.Total)
	v.Units, v.UnitTicks = units(b, v.Total)
	v.Chained = slices.ContainsFunc(v.Units, func(r row) bool { return r.Chain })
	v.Ticks = ticks(v.Total)
	v.Slowest = slowest(v.Rows)
	if b.Node != "" {
		if n, err := d.API.Node(r.Context(), b.Node); err == nil && n.Boot != nil && n.Boot.ID == b.ID &&
			n.Status != nil {
			v.Stalled, v.Rejects = n.Status.Stalled, n.Status.Rejected
		}
	}
	live := ""
	if b.State == trace.Booting || b.State == trace.Failed || d.Now().Sub(b.Updated) < time.Hour {
		live = liveOf("boot", string(b.ID), after)
	}
	return view{template: "boot.html", title: "Boot of " + bootOwner(b.Boot), live: live, data: v}, nil
}

// bootOwner returns the node of a boot, or the MAC of a machine that is not adopted.
func bootOwner(b api.Boot) string { return cmp.Or(b.Node, b.MAC.String()) }

func bootMood(s trace.State) mood {
	switch s {
	case trace.Failed:
		return failed
	case trace.Up:
		return booted
	case trace.Degraded:
		return degraded
	case trace.Silent:
		return silent
	case trace.Down:
		return down
	}
	return booting
}

// bootEnd returns where the scale of a boot's timeline ends: at booted, or later for later marks and units. Events
// hours later, such as the shutdown, do not count, because they would squeeze the boot.
func bootEnd(b api.BootDetail, now time.Time) time.Duration {
	end := b.Elapsed
	if b.State == trace.Booting {
		end = max(end, min(now.Sub(b.Started), end+time.Minute))
	}
	for _, s := range b.Steps {
		if onScale(b, s) {
			end = max(end, s.Start+s.Duration)
		}
	}
	return max(end, time.Second)
}

// onScale reports whether a step belongs to the boot itself and not to the time after it.
func onScale(b api.BootDetail, s api.Step) bool {
	if s.Stage == trace.Shutdown {
		return false
	}
	return b.State == trace.Booting || b.State == trace.Failed || s.Start < 2*b.Elapsed
}

// waterfall returns the stages of a boot. Each stage's bar starts where the stage before ended, so that no time is
// hidden between them: the kernel's start counts for init, the image's for booted. The inner bar is the time that the
// stage reported.
func waterfall(b api.BootDetail, total time.Duration) []row {
	parts := map[trace.Stage]trace.Part{}
	for _, p := range endsOf(b).Parts() {
		parts[p.Stage] = p
	}
	var rows []row
	for _, s := range b.Steps {
		if !onScale(b, s) {
			continue
		}
		own := s.Duration
		if s.Open {
			own = max(total-s.Start, 0)
		}
		out := row{
			Name:  string(s.Stage),
			Text:  stageText(s.Stage),
			Part:  partOf(s.Stage),
			Start: s.Start,
			Took:  own,
			Open:  s.Open,
			Moment: !s.Open &&
				own == 0,
			Attempt: s.Attempt,
			Failure: s.Failure,
			Hint:    s.Hint,
			Message: s.Message,
			Bar:     newBar(s.Start, own, total),
		}
		if p, ok := parts[s.Stage]; ok {
			out.Start, out.Took, out.Moment = p.Start, p.Took, false
		}
		out.Wait = newBar(out.Start, out.Took, total)
		out.Received = s.Bytes[trace.SourceK] + s.Bytes[trace.SourceNeighbour]
		if i := slices.IndexFunc(b.Gaps, func(g api.Gap) bool { return g.Before == s.Stage }); i >= 0 {
			out.Gap = &b.Gaps[i]
		}
		rows = append(rows, out)
	}
	return rows
}

// endsOf returns when the stages of a boot ended.
func endsOf(b api.BootDetail) trace.Ends {
	var t trace.Timeline
	for _, s := range b.Steps {
		t.Steps = append(t.Steps, trace.Step(s))
	}
	return t.Ends()
}

// bootTrace sends a boot as a Chrome trace file.
func (d *Dashboard) bootTrace(w http.ResponseWriter, r *http.Request) {
	b, err := d.API.Boot(r.Context(), fleet.BootID(r.PathValue("id")))
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	body, err := trace.EncodeChrome([]trace.Process{{Name: bootOwner(b.Boot), Spans: b.Spans()}})
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="boot-`+string(b.ID)+`.json"`)
	_, _ = w.Write(body) // the browser is gone when this fails
}

func partOf(s trace.Stage) string {
	switch rank := trace.Rank(s); {
	case rank < 0:
		return "mark"
	case rank < trace.Rank(trace.Init):
		return "firmware"
	case rank < trace.Rank(trace.SwitchRoot):
		return "agent"
	}
	return "image"
}

// units returns the units of systemd's report, on a scale that starts with systemd.
func units(b api.BootDetail, total time.Duration) ([]row, []tick) {
	if b.Systemd == nil {
		return nil, nil
	}
	var rows []row
	from := max(b.SystemdStart+b.Systemd.Userspace, 0)
	for _, u := range b.Systemd.Units {
		start, took := b.SystemdStart+u.Start, u.Active-u.Start
		if took < 0 || start > total {
			continue
		}
		part := "unit"
		if u.Chain {
			part = "image"
		}
		rows = append(rows, row{Name: u.Unit, Part: part, Start: start, Took: took, Moment: took == 0, Chain: u.Chain})
		from = min(from, start)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Start, b.Start) })
	for i := range rows {
		rows[i].Bar = newBar(rows[i].Start-from, rows[i].Took, total-from)
	}
	return rows, ticksFrom(from, total)
}

// slowest returns the stage that took longest, if one stands out.
func slowest(rows []row) string {
	var most row
	var sum time.Duration
	for _, r := range rows {
		if !r.Open && !r.Moment {
			sum += r.Took
			if r.Took > most.Took {
				most = r
			}
		}
	}
	if sum == 0 || most.Took*4 < sum {
		return ""
	}
	return most.Name
}

// ticks returns about five round times on a scale.
func ticks(total time.Duration) []tick { return ticksFrom(0, total) }

// ticksFrom is like ticks for a scale that starts at `from`.
func ticksFrom(from, total time.Duration) []tick {
	long, step := total-from, time.Second
	for _, s := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
		15 * time.Second, 30 * time.Second, time.Minute,
		2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour,
		24 * time.Hour} {
		step = s
		if long/s <= 6 {
			break
		}
	}
	var out []tick
	// the last tick needs room for its text
	for at := (from + step - 1) / step * step; at < total-long/20 && len(out) < 10; at += step {
		out = append(out, tick{int(int64(at-from) * 1000 / int64(long)), tickText(at)})
	}
	return out
}

func tickText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d%time.Minute == 0:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}
