package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// Progress has the stage that a boot reached, and the node's last status.
type Progress struct {
	trace.Progress
	Status  json.RawMessage // as the node sent it; nil: none was received
	LeftOut int             // number of events beyond the bounds of a boot

	kept    int         // number of stored events
	bytes   int64       // bytes of the stored events
	told    int64       // number of the event that says how many are left out; 0: none
	dropped trace.Event // last event that the current call left out
}

const progressColumns = `SELECT boot, events, body, status, bytes, left_out, told FROM progress`

// Progress returns the progress of boots. A boot without events is missing in the result.
func (r *Registry) Progress(ctx context.Context, boots ...fleet.BootID) (map[fleet.BootID]Progress, error) {
	out := make(map[fleet.BootID]Progress, len(boots))
	stmt, err := r.events.read.PrepareContext(ctx, progressColumns+` WHERE boot = ?`)
	if err != nil {
		return nil, fmt.Errorf("read progress: %w", err)
	}
	defer stmt.Close()
	for _, id := range boots {
		_, p, err := scanProgress(stmt.QueryRowContext(ctx, string(id)))
		waiting := r.pending.of(id)
		if errors.Is(err, sql.ErrNoRows) && len(waiting) == 0 {
			continue
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("read progress of boot %s: %w", id, err)
		}
		for _, e := range waiting {
			p.Apply(e)
		}
		out[id] = p
	}
	return out, nil
}

// PutStatus stores the latest status of a boot's node.
func (r *Registry) PutStatus(ctx context.Context, boot fleet.BootID, status json.RawMessage, now time.Time) error {
	err := r.writeHistory(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(
			ctx,
			`INSERT INTO progress (boot, updated, events, body, status) VALUES (?, ?, 0, NULL, ?)
			ON CONFLICT (boot) DO UPDATE SET updated = excluded.updated, status = excluded.status`,
			string(boot),
			stamp(now),
			[]byte(status),
		)
		return err
	})
	if err != nil {
		return fmt.Errorf("record status of boot %s: %w", boot, err)
	}
	return nil
}

func progressOf(ctx context.Context, tx *sql.Tx, known map[fleet.BootID]*Progress, id fleet.BootID) (*Progress, error) {
	if p := known[id]; p != nil {
		return p, nil
	}
	_, p, err := scanProgress(tx.QueryRowContext(ctx, progressColumns+` WHERE boot = ?`, string(id)))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	if id != "" { // an event without a boot changes no progress
		known[id] = &p
	}
	return &p, nil
}

func putProgress(ctx context.Context, tx *sql.Tx, id fleet.BootID, p *Progress) error {
	body, err := json.Marshal(p.Progress)
	if err != nil {
		return fmt.Errorf("encode progress of boot %s: %w", id, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO progress (boot, updated, events, body, bytes, left_out, told)
		VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (boot) DO UPDATE SET updated = excluded.updated, events = excluded.events,
		body = excluded.body, bytes = excluded.bytes, left_out = excluded.left_out, told = excluded.told`,
		string(id), stamp(p.Updated), p.kept, body, p.bytes, p.LeftOut, p.told)
	return err
}

func scanProgress(s scanner) (fleet.BootID, Progress, error) {
	var id fleet.BootID
	var p Progress
	var body, status []byte
	if err := s.Scan(&id, &p.kept, &body, &status, &p.bytes, &p.LeftOut, &p.told); err != nil {
		return id, p, err
	}
	if status != nil {
		p.Status = status
	}
	if body == nil {
		return id, p, nil
	}
	return id, p, json.Unmarshal(body, &p.Progress)
}
