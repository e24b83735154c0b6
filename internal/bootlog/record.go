package bootlog

import (
	"context"
	"fmt"
	"net/netip"

	"pando/internal/trace"
)

// maxWaiting bounds the events of a boot that has no record yet.
const maxWaiting = 16

// Record appends the server's events of a boot to its timeline, after those that are still written behind. An event
// that cannot be written stops no boot: it is logged as lost. The boot's lock is held.
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

// RecordBehind is record for who cannot wait for the history: the events are written soon, in order. The boot's lock is
// held.
func (b *Boots) RecordBehind(c *Entry, events ...trace.Event) {
	all := b.due(c, events)
	if len(all) == 0 {
		return
	}
	last, err := b.behind.add(all)
	if err != nil {
		b.lost(c, err)
		return
	}
	c.last = last
}

// due fills in whose events these are. It returns them behind those that waited for the boot's record, or keeps them
// while there is none.
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

// RecordUnlocked is record for who does not hold the boot's lock. It does not depend on a request, which may have been
// broken off.
func (b *Boots) RecordUnlocked(c *Entry, events ...trace.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), RecordTime)
	defer cancel()
	c.Lock()
	defer c.Unlock()
	b.Record(ctx, c, events...)
}

// maxFailures bounds the failures of one boot that become events: some are made by whoever can send a packet.
const maxFailures = 64

// isNewFailure reports whether a failure is another one than the last of this boot, and remembers it: machines repeat
// what failed every 30 seconds. The boot's lock is held.
func (c *Entry) isNewFailure(stage trace.Stage, message string) bool {
	text := string(stage) + message
	if c.Failure == text || c.failed >= maxFailures {
		return false
	}
	c.Failure = text
	c.failed++
	return true
}

// Fail records that a stage failed, unless the same failure was the last one, and reports whether it did. The
// caller holds the boot's lock.
func (b *Boots) Fail(ctx context.Context, c *Entry, stage trace.Stage, message, hint string) bool {
	isNew := c.isNewFailure(stage, message)
	if isNew {
		b.Record(ctx, c, trace.Event{Stage: stage, Kind: trace.Fail, Message: message, Hint: hint})
	}
	return isNew
}

// Note records what an operator should know of a boot, unless it was the last thing that was told. The boot's lock is
// held.
func (b *Boots) Note(ctx context.Context, c *Entry, stage trace.Stage, message, hint string) {
	if c.isNewFailure(stage, message) {
		b.Record(ctx, c, trace.Event{Stage: stage, Kind: trace.Info, Message: message, Hint: hint})
	}
}

// FailBehind is fail for who cannot wait for the history. The boot's lock is held.
func (b *Boots) FailBehind(c *Entry, stage trace.Stage, message, hint string) {
	if c.isNewFailure(stage, message) {
		b.RecordBehind(c, trace.Event{Stage: stage, Kind: trace.Fail, Message: message, Hint: hint})
	}
}

// NoteBehind is FailBehind for what is no failure. The boot's lock is held.
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

// BytesK are the bytes of an event that sent a part of kernel and initrd.
func BytesK(n int64) map[string]int64 { return map[string]int64{trace.SourceK: n} }

// BytesText writes a size for people.
func BytesText(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
