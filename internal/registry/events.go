package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// EventsPerBoot bounds the timeline of one boot, so that a node that reports for months, or maliciously, does not
// displace the history of others. Events beyond it update the progress and are dropped.
const EventsPerBoot = 4096

// EventFilter selects events. The zero filter selects all that are kept.
type EventFilter struct {
	After int64        // with a higher sequence number
	Boot  fleet.BootID // of this boot
	Limit int          // the first so many; 0: all
}

// Append records events in their order and returns them with their sequence numbers. An event that a node reported
// before, or that is beyond EventsPerBoot, gets none. It is the only way to add events: timelines, followers and
// counters read what it wrote.
func (r *Registry) Append(ctx context.Context, events ...trace.Event) ([]trace.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	out := make([]trace.Event, len(events))
	copy(out, events)
	err := r.events.write(ctx, func(tx *sql.Tx) error { return r.append(ctx, tx, out) })
	if err != nil {
		return nil, fmt.Errorf("append %d events: %w", len(events), err)
	}
	r.feed.publish(highest(out))
	return out, nil
}

func (r *Registry) append(ctx context.Context, tx *sql.Tx, events []trace.Event) error {
	progress := make(map[fleet.BootID]*Progress)
	for i := range events {
		e := &events[i]
		e.Seq = 0 // given by the table
		if again, err := reportedBefore(ctx, tx, *e); err != nil || again {
			if err != nil {
				return err
			}
			continue
		}
		p, err := progressOf(ctx, tx, progress, e.Boot)
		if err != nil {
			return err
		}
		p.Apply(*e)
		if p.events++; p.events > EventsPerBoot && e.Boot != "" {
			continue
		}
		if err := insertEvent(ctx, tx, e); err != nil {
			return err
		}
	}
	for id, p := range progress {
		if err := putProgress(ctx, tx, id, p); err != nil {
			return err
		}
	}
	return r.prune(ctx, tx, highest(events), len(events))
}

// reportedBefore reports whether a node's event is on record: a node whose report was taken but whose answer was lost
// reports again. Its own clock (Offset) makes the event the same to the byte.
func reportedBefore(ctx context.Context, tx *sql.Tx, e trace.Event) (bool, error) {
	if e.Boot == "" || e.Offset == 0 {
		return false, nil
	}
	body, err := json.Marshal(e)
	if err != nil {
		return false, fmt.Errorf("encode event %s %s: %w", e.Stage, e.Kind, err)
	}
	var n int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM events WHERE boot = ? AND body = ?`, string(e.Boot), body).
		Scan(&n)
	return n > 0, err
}

func insertEvent(ctx context.Context, tx *sql.Tx, e *trace.Event) error {
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode event %s %s: %w", e.Stage, e.Kind, err)
	}
	res, err := tx.ExecContext(ctx, `INSERT INTO events (boot, body) VALUES (?, ?)`, string(e.Boot), body)
	if err != nil {
		return err
	}
	e.Seq, err = res.LastInsertId()
	return err
}

// prune forgets what is beyond the bounds, now and then.
func (r *Registry) prune(ctx context.Context, tx *sql.Tx, last int64, n int) error {
	const every = 1000
	if last%every >= int64(n) {
		return nil
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM events WHERE seq <= ?`, last-r.maxEvents)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM progress WHERE boot IN
		(SELECT boot FROM progress ORDER BY updated DESC LIMIT -1 OFFSET ?)`, max(r.maxEvents/20, 1000))
	return err
}

// Events returns recorded events in their order.
func (r *Registry) Events(ctx context.Context, f EventFilter) ([]trace.Event, error) {
	where, args := []string{"seq > ?"}, []any{f.After}
	if f.Boot != "" {
		where, args = append(where, "boot = ?"), append(args, string(f.Boot))
	}
	if f.Limit <= 0 {
		f.Limit = -1
	}
	rows, err := r.events.read.QueryContext(ctx, `SELECT seq, body FROM events WHERE `+strings.Join(where, " AND ")+
		` ORDER BY seq LIMIT ?`, append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	defer rows.Close()
	var out []trace.Event
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	return out, nil
}

func scanEvent(s scanner) (trace.Event, error) {
	var e trace.Event
	var seq int64
	var body []byte
	err := s.Scan(&seq, &body)
	if err == nil {
		err = json.Unmarshal(body, &e)
	}
	e.Seq = seq
	return e, err
}

// highest is the highest sequence number among events; those that were not kept have none.
func highest(events []trace.Event) int64 {
	var seq int64
	for _, e := range events {
		seq = max(seq, e.Seq)
	}
	return seq
}
