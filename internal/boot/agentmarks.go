package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pando/internal/trace"
)

// leftover reports what init could not send any more.
func (a *agent) leftover() {
	if a.progress.Leftover {
		return
	}
	var events []trace.Event
	if err := readJSON(a.dir, eventsName, &events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.logf("init's last events: %v", err)
	}
	a.report.add(events...)
	a.progress.Leftover = true
	a.keepProgress()
}

// marks reports the marks that were made since the last look.
func (a *agent) marks() {
	data, err := os.ReadFile(filepath.Join(a.dir, marksName))
	if err != nil || int64(len(data)) <= a.progress.Marks {
		return
	}
	found, used := parseMarks(data[a.progress.Marks:])
	a.progress.Marks += int64(used)
	for _, m := range found {
		a.mark(m)
	}
	a.keepProgress()
}

// parseMarks reads whole lines and returns how many bytes they were. A line that makes no sense is skipped.
func parseMarks(data []byte) ([]mark, int) {
	end := bytes.LastIndexByte(data, '\n') + 1
	var out []mark
	for line := range bytes.Lines(data[:end]) {
		var m mark
		if json.Unmarshal(line, &m) == nil && m.Name != "" {
			out = append(out, m)
		}
	}
	return out, end
}

// mark reports one mark. Booted comes with the bytes that the boot took.
func (a *agent) mark(m mark) {
	e := trace.Event{Stage: trace.Stage(m.Name), Kind: trace.End, Attempt: 1, Offset: m.At - a.session.Origin}
	if e.Stage == trace.Booted {
		e.Message = "default target reached"
		a.booted.Store(true)
		a.progress.Booted, a.progress.BootedAt = true, m.At
	}
	a.progress.Until = a.progress.Until || m.Name == a.session.Until
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s, err := a.block.Status(ctx, a.progress.Incidents); err == nil {
		e.Bytes = s.Bytes
	}
	if e.Stage == trace.Booted {
		_ = a.block.Booted(ctx) // if it is being replaced, the end of the recording says so
	}
	a.event(e)
}

// keepProgress is written when events are queued, not when they are sent: an event that is reported twice
// would spoil a timeline, one that is lost because the agent died in that second does not.
func (a *agent) keepProgress() {
	if a.leaving.Load() {
		return
	}
	if err := writeJSON(a.dir, progressName, 0o600, a.progress); err != nil {
		a.logf("%v", err)
	}
}
