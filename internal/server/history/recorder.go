package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Recorder writes the history of boots from the stream of events. It works after the events are recorded, so that no
// boot waits for it.
type Recorder struct {
	registry *registry.Registry
	log      *slog.Logger
}

// NewRecorder returns a Recorder.
func NewRecorder(reg *registry.Registry, log *slog.Logger) *Recorder {
	return &Recorder{registry: reg, log: log}
}

// historyBatch is how many events are read at once: a boot storm has thousands a second, of the same boots.
const historyBatch = 1000

// historyBytes limits the size of these events together.
const historyBytes = 4 << 20

// Run keeps the history up to date until the registry closes or ctx ends.
func (h *Recorder) Run(ctx context.Context) error {
	seq, err := h.registry.HistoryMark(ctx)
	if err != nil {
		return err
	}
	news := make(chan struct{}, 1)
	go func() {
		_ = h.registry.Follow(ctx, h.registry.Last(), func(trace.Event) error { // it ends with ctx
			select {
			case news <- struct{}{}:
			default: // Run is woken already
			}
			return nil
		})
		close(news)
	}()
	for {
		next, err := h.catchUp(ctx, seq)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // the next event makes Run try again
			h.log.Error("history of boots cannot be recorded", "err", err)
		}
		if next > seq {
			seq = next
			continue
		}
		select {
		case _, ok := <-news:
			if !ok {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// catchUp records the boots of the events after seq and returns the last sequence number that it has read.
func (h *Recorder) catchUp(ctx context.Context, seq int64) (int64, error) {
	events, err := h.registry.Events(ctx, registry.EventFilter{After: seq, Limit: historyBatch, Bytes: historyBytes})
	if err != nil || len(events) == 0 {
		return seq, err
	}
	var boots []registry.PastBoot
	done := map[fleet.BootID]bool{}
	for _, e := range events {
		if !worthHistory(e) || done[e.Boot] {
			continue
		}
		done[e.Boot] = true
		b, err := h.past(ctx, e.Boot)
		if errors.Is(err, registry.ErrNotFound) {
			continue // the boot was deleted meanwhile
		}
		if err != nil {
			return seq, err
		}
		boots = append(boots, b)
	}
	last := events[len(events)-1].Seq
	return last, h.registry.PutHistory(ctx, last, boots...)
}

// worthHistory reports whether an event changes a boot's entry in the history: it got its script, registered, failed,
// booted, or shut down.
func worthHistory(e trace.Event) bool {
	if e.Boot == "" || e.Node == "" {
		return false
	}
	return e.Kind == trace.Fail ||
		e.Kind == trace.End &&
			(e.Stage == trace.Script || e.Stage == trace.Register ||
				e.Stage == trace.Booted || e.Stage == trace.Shutdown)
}

// past returns the history entry of a boot.
func (h *Recorder) past(ctx context.Context, id fleet.BootID) (registry.PastBoot, error) {
	var b registry.Boot
	var n fleet.Node
	err := h.registry.View(ctx, func(tx *registry.Tx) (err error) {
		if b, err = tx.Boot(id); err != nil {
			return err
		}
		if n, err = tx.Node(b.Node); errors.Is(err, registry.ErrNotFound) {
			err = nil // the node was deleted; its boots stay in the history
		}
		return err
	})
	if err != nil {
		return registry.PastBoot{}, err
	}
	events, err := h.registry.Events(ctx, registry.EventFilter{Boot: id})
	if err != nil {
		return registry.PastBoot{}, err
	}
	progress, err := h.registry.Progress(ctx, id)
	if err != nil {
		return registry.PastBoot{}, err
	}
	p, line := progress[id], trace.NewTimeline(events)
	out := registry.PastBoot{
		ID:       id,
		Node:     b.Node,
		Group:    n.Group,
		Class:    fleetview.BootClass(b),
		Firmware: b.Firmware,
		Image:    b.Image,
		Version:  b.Version,
		Started:  line.Started,
		State:    p.State,
		Failure:  p.Failure,
		Stage:    p.Stage,
		Elapsed:  p.Elapsed(),
		Ends:     line.Ends(),
		Bytes:    p.Bytes,
		Refused:  p.Refused,
	}
	if line.Started.IsZero() {
		out.Started = b.Started
	}
	if out.State == trace.Down && !p.Ready.IsZero() {
		out.State = trace.Up // a boot that was up has succeeded
	}
	return out, nil
}

// pastView converts a history entry for the API.
func pastView(b registry.PastBoot) api.PastBoot {
	ends := make(map[trace.Stage]time.Duration, len(b.Ends))
	for s, d := range b.Ends {
		ends[s] = d
	}
	return api.PastBoot{
		ID:       b.ID,
		Node:     b.Node,
		Group:    b.Group,
		Class:    b.Class,
		Firmware: b.Firmware,
		Image:    b.Image,
		Version:  b.Version,
		Started:  b.Started,
		State:    b.State,
		Stage:    b.Stage,
		Failure:  b.Failure,
		Elapsed:  b.Elapsed,
		Ends:     ends,
		Bytes:    b.Bytes,
		Refused:  b.Refused,
	}
}

// historyKey returns the group, version, class, firmware or node under which figures count a boot.
func historyKey(b registry.PastBoot, by string) string {
	switch by {
	case "group":
		return b.Group
	case "version":
		name, _, _, _ := b.Image.Split() // a boot whose image name is not valid never booted
		return cmp.Or(name, "?") + "@" + b.Version.Short()
	case "class":
		return cmp.Or(b.Class, "unknown")
	case "firmware":
		return cmp.Or(b.Firmware, "unknown")
	}
	return b.Node
}
