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

// marks reports the timeline marks of init and of programs of the image.
type marks struct {
	who    *identity
	sender *sender
	record *record
	block  blockapi.Client
}

// leftover reports the events that init could not send before it ended, once.
func (m *marks) leftover() {
	if m.record.Leftover {
		return
	}
	var events []trace.Event
	if err := rundir.ReadJSON(m.who.dir, rundir.EventsName, &events); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.sender.logf("init's last events cannot be read: %v", err)
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

// parseMarks parses the complete lines and returns their length in bytes. It skips invalid lines.
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

// emergency is the name of the mark for systemd's emergency and rescue modes.
const emergency = "emergency"

// report queues the event of one mark, with the bytes that were read so far.
func (m *marks) report(one rundir.MarkLine) {
	e := trace.Event{Stage: trace.Stage(one.Name), Kind: trace.End, Attempt: 1, Offset: one.At - m.who.session.Origin}
	switch one.Name {
	case string(trace.Booted):
		e.Message = "default target reached"
		m.record.booted(one.At)
	case emergency:
		e.Stage, e.Kind, e.Message = trace.Booted, trace.Fail, "emergency or rescue mode"
		failed, _ := systemd.Failed(context.Background(), systemd.Systemctl) // on an error the list is empty
		e.Message += "; failed units: " + strings.Join(failed, ", ")
	}
	m.record.Until = m.record.Until || one.Name == m.who.session.Until
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s, err := m.block.Status(ctx, m.record.Incidents); err == nil {
		e.Bytes = s.Bytes
	}
	if e.Stage == trace.Booted && e.Kind == trace.End {
		_ = m.block.Booted(ctx) // if the daemon is being replaced, the end of the recording tells the next one
	}
	m.sender.event(e)
}
