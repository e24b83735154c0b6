package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Tx is a transaction on registry.db. It must be used by one goroutine, and only until the function that got it
// returns.
type Tx struct {
	ctx context.Context // of the call of View or Update, which outlives the Tx
	tx  *sql.Tx

	over   *overlay // what is only in memory; nil: nothing
	change *overlay // overlay that gets boots and leases; nil: they go to the file
}

func (t *Tx) exec(query string, args ...any) (int64, error) {
	if t.change != nil {
		return 0, fmt.Errorf("%w, and only boots and leases are kept in memory", ErrFull)
	}
	res, err := t.tx.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *Tx) row(query string, args ...any) *sql.Row {
	return t.tx.QueryRowContext(t.ctx, query, args...)
}

// scanner is a row: *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// list reads all rows of a query.
func list[T any](t *Tx, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := t.tx.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// one reads one row. If there is none, it returns ErrNotFound with the kind and name.
func one[T any](row scanner, scan func(scanner) (T, error), kind, name string) (T, error) {
	v, err := scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		return v, notFound(kind, name)
	}
	if err != nil {
		return v, fmt.Errorf("read %s %q: %w", kind, name, err)
	}
	return v, nil
}

// stamp returns a time as stored: nanoseconds since 1970 in UTC, 0 for the zero time.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func unstamp(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// pack returns a small list or map as JSON for a column, "" if it is empty.
func pack(v any, empty bool) string {
	if empty {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil { // strings, numbers, and maps and lists of them can always be encoded
		panic(fmt.Sprintf("registry: encode %T: %v", v, err))
	}
	return string(b)
}

func unpack(s string, v any) error {
	if s == "" {
		return nil
	}
	return json.Unmarshal([]byte(s), v)
}
