package agent

import (
	"context"
	"fmt"
	"time"

	"pando/internal/blockapi"
	"pando/internal/trace"
)

// attrObject is the event attribute that names an incident's object, in 64 hex digits.
const attrObject = "object"

// incidents reports the incidents of the root's block daemon.
type incidents struct {
	who    *identity
	sender *sender
	record *record
	block  blockapi.Client
}

// status returns the counters of the block daemon, and reports the incidents since the last call.
func (w *incidents) status(ctx context.Context) (blockapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	b, err := w.block.Status(ctx, w.record.Incidents)
	if err != nil {
		w.sender.logf("block daemon: %v", err)
		return b, err
	}
	w.tell(b)
	return b, nil
}

// tell queues an event for each incident that was not reported yet.
func (w *incidents) tell(b blockapi.Status) {
	for _, i := range b.Incidents {
		if i.Sequence <= w.record.Incidents {
			continue
		}
		w.sender.event(w.event(i))
		w.record.Incidents = i.Sequence
		w.record.keep()
	}
}

// event returns the timeline event of an incident, with the time when it happened. It may be sent much later, if the
// server is down.
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
