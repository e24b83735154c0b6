package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// Bounds of the timeline of one boot. A node that reports for months, or maliciously, must not displace the history
// of other nodes. Events beyond the bounds update the progress and are counted.
const (
	EventsPerBoot = 4096
	BytesPerBoot  = 1 << 20 // encoded bytes; the last quarter of both bounds is not for Info events
)

// EventFilter selects events. The zero filter selects all that are kept.
type EventFilter struct {
	After int64        // only events with a higher sequence number
	Boot  fleet.BootID // of this boot
	Limit int          // at most this many, the first; 0: all
	Bytes int64        // stop after this many bytes; 0: the bound of a boot, or all
}

// Append records events in order and returns them with their sequence numbers. An event that a node reported before,
// or that is beyond the bounds of its boot, gets no number. Events must be added only by Append, because timelines,
// followers and counters read what it wrote.
func (r *Registry) Append(ctx context.Context, events ...trace.Event) ([]trace.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	if r.pending.count() > 0 { // they are written together when the disk has room
		r.keepPending(events)
		return events, nil
	}
	out := make([]trace.Event, len(events))
	copy(out, events)
	var last int64
	err := r.writeHistory(ctx, func(tx *sql.Tx) (err error) {
		last, err = r.append(ctx, tx, out)
		return err
	})
	if errors.Is(err, ErrFull) && r.disk.reserve != nil {
		r.keepPending(events)
		return events, nil
	}
	if err != nil {
		return nil, fmt.Errorf("append %d events: %w", len(events), err)
	}
	r.feed.publish(last)
	return out, nil
}

// append stores events and returns the highest sequence number that it gave.
func (r *Registry) append(ctx context.Context, tx *sql.Tx, events []trace.Event) (last int64, err error) {
	progress := make(map[fleet.BootID]*Progress)
	var added int64
	for i := range events {
		e := &events[i]
		e.Seq = 0 // the table assigns it
		x, err := encode(*e)
		if err != nil {
			return 0, err
		}
		if again, err := x.reportedBefore(ctx, tx); err != nil || again {
			if err != nil {
				return 0, err
			}
			continue
		}
		p, err := progressOf(ctx, tx, progress, e.Boot)
		if err != nil {
			return 0, err
		}
		p.Apply(*e)
		if e.Boot != "" && !p.keeps(x) {
			p.LeftOut++
			p.dropped = *e
			continue
		}
		if e.Seq, err = x.insert(ctx, tx); err != nil {
			return 0, err
		}
		p.kept++
		p.bytes += int64(len(x.body))
		added += int64(len(x.body))
		last = e.Seq
	}
	for id, p := range progress {
		told, bytes, err := p.tellLeftOut(ctx, tx, id)
		if err == nil {
			err = putProgress(ctx, tx, id, p)
		}
		if err != nil {
			return 0, err
		}
		last, added = max(last, told), added+bytes
	}
	if _, err := tx.ExecContext(ctx, `UPDATE event_bytes SET total = total + ?`, added); err != nil {
		return 0, err
	}
	return last, r.prune(ctx, tx, last, len(events))
}

// prune deletes events beyond the bounds, once in about 1000 events.
func (r *Registry) prune(ctx context.Context, tx *sql.Tx, last int64, n int) error {
	const every = 1000
	if last == 0 || last%every >= int64(n) {
		return nil
	}
	if err := forgetEvents(ctx, tx, last-r.maxEvents); err != nil {
		return err
	}
	if err := shrinkEvents(ctx, tx, r.maxEventBytes); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM progress WHERE boot IN
		(SELECT boot FROM progress ORDER BY updated DESC LIMIT -1 OFFSET ?)`, max(r.maxEvents/20, 1000))
	return err
}

// forgetEvents deletes the events up to a sequence number.
func forgetEvents(ctx context.Context, tx *sql.Tx, upto int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE event_bytes SET total = total -
		(SELECT coalesce(sum(length(body)), 0) FROM events WHERE seq <= ?)`, upto)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM events WHERE seq <= ?`, upto)
	return err
}

// shrinkEvents deletes the oldest events until the rest has at most most bytes.
func shrinkEvents(ctx context.Context, tx *sql.Tx, most int64) error {
	const some = 100
	for {
		var total, upto int64
		err := tx.QueryRowContext(ctx, `SELECT total,
			(SELECT coalesce(max(seq), 0) FROM (SELECT seq FROM events ORDER BY seq LIMIT ?)) FROM event_bytes`, some).
			Scan(&total, &upto)
		if err != nil || total <= most || upto == 0 {
			return err
		}
		if err := forgetEvents(ctx, tx, upto); err != nil {
			return err
		}
	}
}

// Events returns stored events in order.
func (r *Registry) Events(ctx context.Context, f EventFilter) ([]trace.Event, error) {
	out, _, err := r.page(ctx, f)
	if f.Boot != "" && err == nil {
		out = append(out, r.pending.of(f.Boot)...)
	}
	return out, err
}

// page returns events, and whether more may follow beyond the filter's bounds.
func (r *Registry) page(ctx context.Context, f EventFilter) (out []trace.Event, more bool, err error) {
	where, args := []string{"seq > ?"}, []any{f.After}
	if f.Boot != "" {
		where, args = append(where, "boot = ?"), append(args, string(f.Boot))
		if f.Bytes == 0 {
			f.Bytes = BytesPerBoot + 2*maxEvent // an older release kept more
		}
	}
	limit := f.Limit
	if limit <= 0 {
		limit = -1
	}
	rows, err := r.events.read.QueryContext(ctx, `SELECT seq, body FROM events WHERE `+strings.Join(where, " AND ")+
		` ORDER BY seq LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		e, size, err := scanEvent(rows)
		if err != nil {
			return nil, false, fmt.Errorf("read events: %w", err)
		}
		out = append(out, e)
		if f.Bytes -= size; f.Bytes <= 0 && f.Bytes+size > 0 {
			return out, true, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read events: %w", err)
	}
	return out, len(out) == limit, nil
}

func scanEvent(s scanner) (e trace.Event, size int64, err error) {
	var seq int64
	var body sql.RawBytes
	if err = s.Scan(&seq, &body); err == nil {
		err = json.Unmarshal(body, &e)
	}
	e.Seq = seq
	return e, int64(len(body)), err
}
