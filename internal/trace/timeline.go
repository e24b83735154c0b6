package trace

import (
	"slices"
	"time"
)

// Step is one stage, or one mark, on a timeline.
type Step struct {
	Stage    Stage
	Start    time.Duration // since the boot started
	Duration time.Duration // 0: a moment, or no end was seen
	Open     bool          // began, or failed, and has not ended
	Attempt  int           // number of tries so far; 1 for the first
	Failure  string        // failure of the last try, while no try succeeded
	Hint     string
	Bytes    map[string]int64
	Message  string // its last reported fact
}

// Timeline has the steps of one boot, ordered by their start.
type Timeline struct {
	Started time.Time
	Steps   []Step
}

// NewTimeline returns the timeline of the events of one boot, which may come in any order.
func NewTimeline(events []Event) Timeline {
	var t Timeline
	if len(events) == 0 {
		return t
	}
	events = slices.Clone(events)
	slices.SortStableFunc(events, compareEvents)
	t.Started = events[0].Time
	at := make(map[Stage]int) // stage -> index in Steps
	for _, e := range events {
		i, known := at[e.Stage]
		if !known {
			if e.Kind == Info && Rank(e.Stage) >= 0 {
				continue // a fact without a begun stage is only in the list of events
			}
			i = len(t.Steps)
			at[e.Stage] = i
			t.Steps = append(t.Steps, Step{Stage: e.Stage, Start: e.Time.Sub(t.Started), Attempt: 1})
		}
		t.Steps[i].apply(e, e.Time.Sub(t.Started))
	}
	return t
}

// compareEvents sorts by time; events of the same time are in the order of a boot.
func compareEvents(a, b Event) int {
	if c := a.Time.Compare(b.Time); c != 0 {
		return c
	}
	if a.Stage != b.Stage {
		return Rank(a.Stage) - Rank(b.Stage)
	}
	return int(a.Seq - b.Seq)
}

func (s *Step) apply(e Event, at time.Duration) {
	if len(e.Bytes) > 0 {
		s.Bytes = e.Bytes
	}
	if e.Message != "" && e.Kind != Fail {
		s.Message = e.Message
	}
	switch e.Kind {
	case Begin:
		if e.Attempt == 0 && (s.Failure != "" || !s.Open && s.Duration > 0) {
			s.Attempt++ // firmware does not count tries: a begin after an end or a failure is the next try
		}
		s.Open = true
		s.Attempt = max(s.Attempt, e.Attempt)
	case End:
		s.Open, s.Failure, s.Hint = false, "", ""
		s.Duration = at - s.Start
	case Fail:
		s.Open, s.Failure, s.Hint = true, e.Message, e.Hint
		s.Attempt = max(s.Attempt, e.Attempt)
	}
}

// AttrKernel is the attribute of Init's begin that holds the time since the kernel started, as a Go duration ("4.57s").
const AttrKernel = "kernel"

// KernelStart returns the kernel's start on the timeline, which is the zero of systemd's clock. It is known if the node
// reported Init with AttrKernel.
func KernelStart(events []Event) (at time.Duration, known bool) {
	if len(events) == 0 {
		return 0, false
	}
	started := slices.MinFunc(events, compareEvents).Time
	for _, e := range events {
		if e.Stage != Init || e.Attrs[AttrKernel] == "" {
			continue
		}
		up, err := time.ParseDuration(e.Attrs[AttrKernel])
		if err != nil || up < 0 {
			return 0, false
		}
		return e.Time.Add(-e.Offset).Sub(started) - up, true
	}
	return 0, false
}
