package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"pando/internal/fleet"
)

// MaxFeedings is for how many boots the senders of their roots are kept: 50 MB with thirty senders each. The oldest
// are deleted first.
const MaxFeedings = 50_000

// Feeding lists who sent a boot its root, as the node counted until the boot was over.
type Feeding struct {
	Boot    fleet.BootID
	Node    string
	Place   string // rack or switch at that time, or else group
	Started time.Time
	From    []Sender
}

// Sender is a peer or server that sent bytes of a boot's root.
type Sender struct {
	Node string `json:"node,omitempty"` // name of a peer
	// Other is the host of a server or bucket, or the address of a peer without a known name. If Node and Other are
	// empty, the entry sums up several senders.
	Other string `json:"other,omitempty"`
	Bytes int64  `json:"bytes"`
}

// PutFeeding records who sent a boot its root. Only the first report of a boot counts: a node in use reports again.
func (r *Registry) PutFeeding(ctx context.Context, f Feeding) error {
	body, err := json.Marshal(f.From)
	if err != nil {
		return fmt.Errorf("encode senders of boot %s: %w", f.Boot, err)
	}
	err = r.writeHistory(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(
			ctx,
			`INSERT INTO feedings (boot, started, node, place, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (boot) DO NOTHING`,
			string(f.Boot), stamp(f.Started), f.Node, f.Place, body,
		)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(
			ctx,
			`DELETE FROM feedings WHERE started < (SELECT started FROM feedings ORDER BY started DESC LIMIT 1 OFFSET ?)`,
			r.maxFeedings-1,
		)
		return err
	})
	if err != nil {
		return fmt.Errorf("record senders of boot %s: %w", f.Boot, err)
	}
	return nil
}

// Feedings returns the senders of the boots that started in an interval, oldest first, up to limit.
func (r *Registry) Feedings(ctx context.Context, since, until time.Time, limit int) ([]Feeding, error) {
	rows, err := r.events.read.QueryContext(
		ctx,
		`SELECT boot, started, node, place, body FROM feedings WHERE started >= ? AND started <= ?
		ORDER BY started, boot LIMIT ?`,
		stamp(since),
		stamp(until),
		limit,
	)
	if err != nil {
		return nil, fmt.Errorf("read senders: %w", err)
	}
	defer rows.Close()
	var out []Feeding
	for rows.Next() {
		var f Feeding
		var started int64
		var body []byte
		err := rows.Scan(&f.Boot, &started, &f.Node, &f.Place, &body)
		if err == nil {
			err = json.Unmarshal(body, &f.From)
		}
		if err != nil {
			return nil, fmt.Errorf("read senders: %w", err)
		}
		f.Started = unstamp(started)
		out = append(out, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read senders: %w", err)
	}
	return out, nil
}
