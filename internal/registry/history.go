package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// MaxHistory is the number of boots in the history: half a year of 300 nodes that boot four times a day, at 500 bytes
// each. Beyond it, every second boot of the older half is deleted, which keeps medians and percentiles about the
// same.
const MaxHistory = 200_000

// PastBoot is a boot in the history, which is kept long after the boot's events are deleted.
type PastBoot struct {
	ID       fleet.BootID
	Node     string
	Group    string // group of the node at that time
	Class    string // hardware: vendor and product, as the node reported it
	Firmware string
	Image    fleet.Ref // image that the node was to boot
	Version  fleet.Digest
	Started  time.Time
	State    trace.State // booted, failed, or booting if no further event was received
	Failure  string      // failure, and the stage at which it occurred
	Stage    trace.Stage
	Elapsed  time.Duration
	Ends     trace.Ends
	Bytes    map[string]int64
	Refused  int // times that a node did not deliver kernel or initramfs to it
}

// pastBody has the fields that no query selects by.
type pastBody struct {
	Firmware string           `json:"firmware,omitempty"`
	Image    fleet.Ref        `json:"image,omitempty"`
	Failure  string           `json:"failure,omitempty"`
	Stage    trace.Stage      `json:"stage,omitempty"`
	Elapsed  time.Duration    `json:"elapsed,omitempty"`
	Ends     trace.Ends       `json:"ends,omitempty"`
	Bytes    map[string]int64 `json:"bytes,omitempty"`
	Refused  int              `json:"refused,omitempty"`
}

// HistoryFilter selects boots of the history. The zero filter selects all.
type HistoryFilter struct {
	Since, Until time.Time // bounds of the start time; zero: no bound
	Version      fleet.Digest
	Group, Class string
	Limit        int // at most this many, the newest; 0: all
}

// PutHistory adds boots to the history or updates them, and records the sequence number of the last event that was
// read.
func (r *Registry) PutHistory(ctx context.Context, seq int64, boots ...PastBoot) error {
	err := r.writeHistory(ctx, func(tx *sql.Tx) error {
		for _, b := range boots {
			if err := putPast(ctx, tx, b); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `UPDATE history_mark SET seq = max(seq, ?)`, seq); err != nil {
			return err
		}
		return r.thinHistory(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("record history: %w", err)
	}
	return nil
}

func putPast(ctx context.Context, tx *sql.Tx, b PastBoot) error {
	body, err := json.Marshal(pastBody{b.Firmware, b.Image, b.Failure, b.Stage, b.Elapsed, b.Ends, b.Bytes, b.Refused})
	if err != nil {
		return fmt.Errorf("encode boot %s: %w", b.ID, err)
	}
	_, err = tx.ExecContext(
		ctx,
		`INSERT INTO history (boot, started, node, grp, class, version, state, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (boot) DO UPDATE SET state = excluded.state, version = excluded.version, class = excluded.class, body = excluded.body`,
		string(b.ID),
		stamp(b.Started),
		b.Node,
		b.Group,
		b.Class,
		string(b.Version),
		string(b.State),
		body,
	)
	return err
}

// thinHistory keeps the history within MaxHistory.
func (r *Registry) thinHistory(ctx context.Context, tx *sql.Tx) error {
	var n int64
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM history`).Scan(&n); err != nil || n <= r.maxHistory {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM history WHERE seq IN (SELECT seq FROM
		(SELECT seq, row_number() OVER (ORDER BY started, seq) AS place FROM history) WHERE place <= ? AND place % 2 = 0)`, n/2)
	return err
}

// HistoryMark returns the sequence number of the last event that the history contains.
func (r *Registry) HistoryMark(ctx context.Context) (seq int64, err error) {
	if err := r.events.read.QueryRowContext(ctx, `SELECT seq FROM history_mark`).Scan(&seq); err != nil &&
		!errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read history: %w", err)
	}
	return seq, nil
}

// History returns boots of the history, newest first.
func (r *Registry) History(ctx context.Context, f HistoryFilter) ([]PastBoot, error) {
	where, args := []string{"started >= ?"}, []any{stamp(f.Since)}
	add := func(clause string, value any) { where, args = append(where, clause), append(args, value) }
	if !f.Until.IsZero() {
		add("started <= ?", stamp(f.Until))
	}
	if f.Version != "" {
		add("version = ?", string(f.Version))
	}
	if f.Group != "" {
		add("grp = ?", f.Group)
	}
	if f.Class != "" {
		add("class = ?", f.Class)
	}
	clause, arg := limitOn(ctx, "grp")
	add(strings.TrimPrefix(clause, " AND "), arg)
	if f.Limit <= 0 {
		f.Limit = -1
	}
	rows, err := r.events.read.QueryContext(
		ctx,
		`SELECT boot, started, node, grp, class, version, state, body FROM history WHERE `+
			strings.Join(where, " AND ")+` ORDER BY started DESC, seq DESC LIMIT ?`,
		append(args, f.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	defer rows.Close()
	var out []PastBoot
	for rows.Next() {
		b, err := scanPast(rows)
		if err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
		out = append(out, b)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return out, nil
}

func scanPast(s scanner) (PastBoot, error) {
	var b PastBoot
	var started int64
	var raw []byte
	if err := s.Scan(&b.ID, &started, &b.Node, &b.Group, &b.Class, &b.Version, &b.State, &raw); err != nil {
		return b, err
	}
	var body pastBody
	err := json.Unmarshal(raw, &body)
	b.Started = unstamp(started)
	b.Firmware, b.Image, b.Failure, b.Stage, b.Elapsed, b.Ends, b.Bytes =
		body.Firmware, body.Image, body.Failure, body.Stage, body.Elapsed, body.Ends, body.Bytes
	b.Refused = body.Refused
	return b, err
}
