package registry

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"pando/internal/fleet"
)

// MaxConsole is how many bytes of a boot's console are kept; the oldest are dropped.
const MaxConsole = 64 << 10

// PutConsole appends text to a boot's console.
func (r *Registry) PutConsole(ctx context.Context, boot fleet.BootID, text []byte, now time.Time) error {
	err := r.writeHistory(ctx, func(tx *sql.Tx) error {
		var old []byte
		err := tx.QueryRowContext(ctx, `SELECT text FROM consoles WHERE boot = ?`, string(boot)).Scan(&old)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO consoles (boot, updated, text) VALUES (?, ?, ?)
			ON CONFLICT (boot) DO UPDATE SET updated = excluded.updated, text = excluded.text`, string(boot), stamp(now), newest(append(old, text...)))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(
			ctx,
			`DELETE FROM consoles WHERE boot IN (SELECT boot FROM consoles ORDER BY updated DESC LIMIT -1 OFFSET ?)`,
			maxConsoles,
		)
		return err
	})
	if err != nil {
		return fmt.Errorf("record console of boot %s: %w", boot, err)
	}
	return nil
}

// maxConsoles is how many boots have a stored console: 64 MB at most.
const maxConsoles = 1000

// newest returns the last MaxConsole bytes of text, from the beginning of a line on.
func newest(text []byte) []byte {
	if len(text) <= MaxConsole {
		return text
	}
	text = text[len(text)-MaxConsole:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return text
}

// Console returns the stored console text of a boot, or "".
func (r *Registry) Console(ctx context.Context, boot fleet.BootID) (string, error) {
	var text []byte
	err := r.events.read.QueryRowContext(ctx, `SELECT text FROM consoles WHERE boot = ?`, string(boot)).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("read console of boot %s: %w", boot, err)
	}
	return string(text), nil
}
