package bootlog

import (
	"context"
	"fmt"
	"net/netip"

	"pando/internal/trace"
)

// maxWaiting bounds the events of a boot that has no record yet.
const maxWaiting = 16

// Record appends the server's events of a boot to its timeline, after those that are still queued. An event that cannot
// be written is logged as lost; the boot goes on. The boot's lock is held.
func (b *Boots) Record(ctx context.Context, c *Entry, events ...trace.Event) {
	all := b.due(c, events)
	if len(all) == 0 {
		return
	}
	if err := b.flush(ctx, c.last); err != nil {
		b.lost(c, err)
		return
	}
	if _, err := b.registry.Append(ctx, all...); err != nil {
		b.lost(c, err)
	}
}

// RecordBehind is like Record but returns at once. The events are written in order soon after. The boot's lock is held.
func (b *Boots) RecordBehind(c *Entry, events ...trace.Event) {
	b.queue(c, false, events)
}

// queue adds events of a boot to those that are written behind the reply. The boot's lock is held.
func (b *Boots) queue(c *Entry, ends bool, events []trace.Event) {
	all := b.due(c, events)
	if len(all) == 0 {
		return
	}
	last, err := b.behind.add(all, ends)
	if err != nil {
		b.lost(c, err)
		return
	}
	c.last = last
}

// due fills in boot, node, MAC and time. It returns the events after those that waited for the boot's record, or keeps
// them all while there is no record.
func (b *Boots) due(c *Entry, events []trace.Event) []trace.Event {
	for i := range events {
		e := &events[i]
		if e.Time.IsZero() {
			e.Time = b.now()
		}
		e.Boot, e.Node, e.MAC = c.Boot.ID, c.Boot.Node, c.MAC
	}
	if !c.Saved {
		if len(c.waiting)+len(events) <= maxWaiting {
			c.waiting = append(c.waiting, events...)
		}
		return nil
	}
	all := append(c.waiting, events...)
	c.waiting = nil
	return all
}

func (b *Boots) lost(c *Entry, err error) {
	b.log.Error("events lost", "node", c.Boot.Node, "boot", c.Boot.ID, "mac", c.MAC, "err", err)
}

// RecordUnlocked is like Record for callers that do not hold the boot's lock. It takes no context, because the request
// that caused the event may have been cancelled.
func (b *Boots) RecordUnlocked(c *Entry, events ...trace.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), RecordTime)
	defer cancel()
	c.Lock()
	defer c.Unlock()
	b.Record(ctx, c, events...)
}

// maxFailures bounds the failures of one boot that become events, because anybody can cause some by sending a packet.
const maxFailures = 64

// isNewFailure reports whether a failure differs from the last one of this boot, and remembers it: machines repeat a
// failed step every 30 seconds. The boot's lock is held.
func (c *Entry) isNewFailure(stage trace.Stage, message string) bool {
	text := string(stage) + message
	if c.Failure == text || c.failed >= maxFailures {
		return false
	}
	c.Failure = text
	c.failed++
	return true
}

// Fail records that a stage failed, unless the last failure was the same, and reports whether it did. The boot's lock
// is held.
func (b *Boots) Fail(ctx context.Context, c *Entry, stage trace.Stage, message, hint string) bool {
	isNew := c.isNewFailure(stage, message)
	if isNew {
		b.Record(ctx, c, trace.Event{Stage: stage, Kind: trace.Fail, Message: message, Hint: hint})
	}
	return isNew
}

// Note records what an operator should know of a boot, unless the last note or failure was the same. The boot's lock is
// held.
func (b *Boots) Note(ctx context.Context, c *Entry, stage trace.Stage, message, hint string) {
	if c.isNewFailure(stage, message) {
		b.Record(ctx, c, trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
	}
}

// FailBehind is like Fail but does not wait for the write. The boot's lock is held.
func (b *Boots) FailBehind(c *Entry, stage trace.Stage, message, hint string) {
	if c.isNewFailure(stage, message) {
		b.RecordBehind(c, trace.Event{Stage: stage, Kind: trace.Fail, Message: message, Hint: hint})
	}
}

// NoteBehind is like Note but does not wait for the write. The boot's lock is held.
func (b *Boots) NoteBehind(c *Entry, stage trace.Stage, message, hint string) {
	if c.isNewFailure(stage, message) {
		b.RecordBehind(c, trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
	}
}

// DHCPDone records the end of a boot's DHCP exchange. The boot's lock is held.
func (b *Boots) DHCPDone(c *Entry, addr netip.Addr) {
	c.DHCP = trace.End
	b.RecordBehind(
		c,
		trace.Event{Stage: trace.DHCP, Kind: trace.End, Attrs: map[string]string{"address": addr.String()}},
	)
}

// BytesK returns the Bytes of an event that sent n bytes of kernel+initrd.
func BytesK(n int64) map[string]int64 { return map[string]int64{trace.SourceK: n} }

// BytesText returns a size for people.
func BytesText(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
