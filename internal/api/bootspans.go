package api

import (
	"fmt"

	"pando/internal/trace"
)

// Spans converts a boot for a trace viewer: its stages, marks and systemd units, on one clock.
func (b BootDetail) Spans() []trace.Span {
	var out []trace.Span
	for _, s := range b.Steps {
		track, detail := "stages", map[string]string{}
		if trace.Rank(s.Stage) < 0 {
			track = "marks"
		}
		for key, text := range map[string]string{"message": s.Message, "failure": s.Failure, "hint": s.Hint} {
			if text != "" {
				detail[key] = text
			}
		}
		if s.Attempt > 1 {
			detail["attempt"] = fmt.Sprint(s.Attempt)
		}
		for source, n := range s.Bytes {
			detail["bytes "+source] = fmt.Sprint(n)
		}
		took := s.Duration
		if s.Open {
			took = max(b.Elapsed-s.Start, 0)
			detail["open"] = "it did not end"
		}
		out = append(out, trace.Span{Track: track, Name: string(s.Stage), Start: s.Start, Took: took, Detail: detail})
	}
	if b.Systemd == nil {
		return out
	}
	zero := b.SystemdStart
	out = append(
		out,
		trace.Span{
			Track:  "systemd",
			Name:   "userspace",
			Start:  zero + b.Systemd.Userspace,
			Took:   b.Systemd.Finish - b.Systemd.Userspace,
			Detail: map[string]string{"state": b.Systemd.State},
		},
	)
	return append(out, b.Units()...)
}

// Units returns the units of systemd's report that took time, on the clock of the boot. It is nil without a report.
func (b BootDetail) Units() []trace.Span {
	if b.Systemd == nil {
		return nil
	}
	out := []trace.Span{}
	for _, u := range b.Systemd.Units {
		span := trace.Span{Track: "units", Name: u.Unit, Start: b.SystemdStart + u.Start, Took: u.Active - u.Start}
		if u.Chain {
			span.Detail = map[string]string{"critical": "the default target waited for it"}
		}
		if span.Took > 0 { // reaching a target takes no time
			out = append(out, span)
		}
	}
	return out
}
