package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/blockapi"
	"pando/internal/rundir"
	"pando/internal/systemd"
	"pando/internal/trace"
)

// marks reports what init and programs of the image put on the timeline.
type marks struct {
	who    *identity
	sender *sender
	record *record
	block  blockapi.Client
}

// leftover reports what init could not send any more.
func (m *marks) leftover() {
	if m.record.Leftover {
		return
	}
	var events []trace.Event
	if err := rundir.ReadJSON(m.who.dir, rundir.EventsName, &events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.sender.logf("init's last events: %v", err)
	}
	m.sender.report.Add(events...)
	m.record.Leftover = true
	m.record.keep()
}

// look reports the marks that were made since the last look.
func (m *marks) look() {
	data, err := os.ReadFile(filepath.Join(m.who.dir, rundir.MarksName))
	if err != nil || int64(len(data)) <= m.record.Marks {
		return
	}
	found, used := parseMarks(data[m.record.Marks:])
	m.record.Marks += int64(used)
	for _, one := range found {
		m.report(one)
	}
	m.record.keep()
}

// parseMarks reads whole lines and returns how many bytes they were. A line that makes no sense is skipped.
func parseMarks(data []byte) ([]rundir.MarkLine, int) {
	end := bytes.LastIndexByte(data, '\n') + 1
	var out []rundir.MarkLine
	for line := range bytes.Lines(data[:end]) {
		var m rundir.MarkLine
		if json.Unmarshal(line, &m) == nil && m.Name != "" {
			out = append(out, m)
		}
	}
	return out, end
}

// emergency is the mark of systemd's emergency and rescue modes.
const emergency = "emergency"

// report reports one mark. Booted comes with the bytes that the boot took.
func (m *marks) report(one rundir.MarkLine) {
	e := trace.Event{Stage: trace.Stage(one.Name), Kind: trace.End, Attempt: 1, Offset: one.At - m.who.session.Origin}
	switch one.Name {
	case string(trace.Booted):
		e.Message = "default target reached"
		m.record.booted(one.At)
	case emergency:
		e.Stage, e.Kind, e.Message = trace.Booted, trace.Fail, "emergency or rescue mode"
		failed, _ := systemd.Failed(context.Background(), systemd.Systemctl) // without them it is told all the same
		e.Message += "; failed units: " + strings.Join(failed, ", ")
	}
	m.record.Until = m.record.Until || one.Name == m.who.session.Until
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s, err := m.block.Status(ctx, m.record.Incidents); err == nil {
		e.Bytes = s.Bytes
	}
	if e.Stage == trace.Booted && e.Kind == trace.End {
		_ = m.block.Booted(ctx) // if it is being replaced, the end of the recording says so
	}
	m.sender.event(e)
}
