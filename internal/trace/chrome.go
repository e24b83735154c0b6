package trace

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Span is one bar in a trace viewer.
type Span struct {
	Track  string // the line that it is drawn on; overlapping spans of a track get further lines
	Name   string
	Start  time.Duration
	Took   time.Duration // 0: a moment
	Detail map[string]string
}

// Process is a group of spans, usually a boot.
type Process struct {
	Name  string
	Spans []Span
}

// chromeEvent is one entry of the JSON trace event format of Chrome, which Perfetto, Speedscope and others read: "M"
// names something, "X" is a span and "i" a moment. Times are microseconds.
type chromeEvent struct {
	Name  string            `json:"name"`
	Phase string            `json:"ph"`
	Time  float64           `json:"ts"`
	Took  *float64          `json:"dur,omitempty"`
	PID   int               `json:"pid"`
	TID   int               `json:"tid"`
	Scope string            `json:"s,omitempty"`
	Args  map[string]string `json:"args,omitempty"`
}

// EncodeChrome writes processes in the JSON trace event format, which https://ui.perfetto.dev opens.
func EncodeChrome(all []Process) ([]byte, error) {
	out := struct {
		Unit   string        `json:"displayTimeUnit"`
		Events []chromeEvent `json:"traceEvents"`
	}{"ms", []chromeEvent{}}
	for i, p := range all {
		out.Events = append(out.Events, chromeProcess(i+1, p)...)
	}
	b, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode trace: %w", err)
	}
	return append(b, '\n'), nil
}

func chromeProcess(pid int, p Process) []chromeEvent {
	out := []chromeEvent{{Name: "process_name", Phase: "M", PID: pid, Args: map[string]string{"name": p.Name}}}
	for tid, l := range lanes(p.Spans) {
		out = append(
			out,
			chromeEvent{
				Name:  "thread_name",
				Phase: "M",
				PID:   pid,
				TID:   tid + 1,
				Args:  map[string]string{"name": l.name},
			},
		)
		for _, s := range l.spans {
			e := chromeEvent{
				Name:  s.Name,
				Phase: "X",
				Time:  microseconds(s.Start),
				PID:   pid,
				TID:   tid + 1,
				Args:  s.Detail,
			}
			if took := microseconds(s.Took); s.Took > 0 {
				e.Took = &took
			} else {
				e.Phase, e.Scope = "i", "t"
			}
			out = append(out, e)
		}
	}
	return out
}

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// lane is one line of a viewer: spans that do not overlap.
type lane struct {
	name  string
	track string
	end   time.Duration
	spans []Span
}

// lanes distributes spans to lines without overlaps: a viewer shows overlapping spans of one line as nested calls.
func lanes(spans []Span) []lane {
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b Span) int { return int(a.Start - b.Start) })
	var out []lane
	var tracks []string
	for _, s := range spans {
		if !slices.Contains(tracks, s.Track) {
			tracks = append(tracks, s.Track)
		}
	}
	for _, track := range tracks {
		first := len(out)
		for _, s := range spans {
			if s.Track != track {
				continue
			}
			i := slices.IndexFunc(out[first:], func(l lane) bool { return l.end <= s.Start })
			if i < 0 {
				i = len(out) - first
				name := track
				if i > 0 {
					name = fmt.Sprintf("%s %d", track, i+1)
				}
				out = append(out, lane{name: name, track: track})
			}
			l := &out[first+i]
			l.spans, l.end = append(l.spans, s), max(l.end, s.Start+s.Took)
		}
	}
	return out
}
