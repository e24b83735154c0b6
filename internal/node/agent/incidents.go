package agent

import (
	"context"
	"fmt"
	"time"

	"pando/internal/blockapi"
	"pando/internal/trace"
)

// attrObject is the attribute of an incident's event that names the object, in 64 hex digits.
const attrObject = "object"

// incidents reports what went wrong below the root.
type incidents struct {
	who    *identity
	voice  *voice
	record *record
	block  blockapi.Client
}

// status is what the block daemon has counted. What went wrong since the last look is told.
func (w *incidents) status(ctx context.Context) (blockapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	b, err := w.block.Status(ctx, w.record.Incidents)
	if err != nil {
		w.voice.logf("block daemon: %v", err)
		return b, err
	}
	w.tell(b)
	return b, nil
}

// tell turns what went wrong below the root into facts on the timeline.
func (w *incidents) tell(b blockapi.Status) {
	for _, i := range b.Incidents {
		if i.Sequence <= w.record.Incidents {
			continue
		}
		w.voice.event(w.event(i))
		w.record.Incidents = i.Sequence
		w.record.keep()
	}
}

// event is the event of an incident, at the moment when it was: while the server is away the agent looks seldom,
// and is heard late.
func (w *incidents) event(i blockapi.Incident) trace.Event {
	message := string(i.Kind) + ": " + i.Message
	if i.Source != "" {
		message = fmt.Sprintf("%s (%s)", message, i.Source)
	}
	e := trace.Event{
		Stage:   trace.SwitchRoot,
		Kind:    trace.Info,
		Offset:  max(0, i.At-w.who.session.Origin),
		Message: message,
		Hint:    blockapi.IncidentHints[i.Kind],
		Attrs:   map[string]string{trace.AttrIncident: string(i.Kind)},
	}
	if w.record.up.Load() && i.At >= w.record.BootedAt {
		e.Stage = trace.Booted
	}
	if i.Object != "" {
		e.Attrs[attrObject] = i.Object
	}
	return e
}
