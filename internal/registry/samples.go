package registry

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// MaxSamples is the number of samples that are kept: a year of a site that boots for ten minutes a day. Beyond it,
// the older half is joined in pairs, which keeps sums and halves the resolution. If that is not enough, the oldest
// are deleted.
const MaxSamples = 200_000

// widest is the largest Width of a joined sample: with more than an hour no curve of a boot storm is left.
const widest = 4096 * time.Second

// Sample is what one server transferred in the interval of Width seconds that begins at At. Width doubles each time
// that samples are joined; At is a multiple of Width.
type Sample struct {
	Server  string
	At      time.Time
	Width   time.Duration
	Sent    int64 // bytes to nodes
	Read    int64 // bytes that the server read from its disks
	Written int64 // bytes that the server wrote to its disks
}

// PutSamples records samples, and adds each to an existing one of the same time.
func (r *Registry) PutSamples(ctx context.Context, samples ...Sample) error {
	err := r.writeHistory(ctx, func(tx *sql.Tx) error {
		for _, s := range samples {
			_, err := tx.ExecContext(
				ctx,
				`INSERT INTO samples (server, at, width, sent, read, written) VALUES (?, ?, ?, ?, ?, ?)
				ON CONFLICT (server, at) DO UPDATE SET sent = sent + excluded.sent, read = read + excluded.read, written = written + excluded.written`,
				s.Server,
				stamp(s.At),
				int64(s.Width),
				s.Sent,
				s.Read,
				s.Written,
			)
			if err != nil {
				return err
			}
		}
		return r.thinSamples(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("record samples: %w", err)
	}
	return nil
}

// thinSamples keeps the samples within MaxSamples.
func (r *Registry) thinSamples(ctx context.Context, tx *sql.Tx) error {
	var n int64
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM samples`).Scan(&n); err != nil || n <= r.maxSamples {
		return err
	}
	var middle int64
	if err := tx.QueryRowContext(ctx, `SELECT at FROM samples ORDER BY at LIMIT 1 OFFSET ?`,
		n/2).Scan(&middle); err != nil {
		return err
	}
	for _, step := range []string{
		`CREATE TEMPORARY TABLE joined AS SELECT server, at / min(2 * width, ?2) * min(2 * width, ?2) AS start, max(min(2 * width, ?2)) AS width,
			sum(sent) AS sent, sum(read) AS read, sum(written) AS written FROM samples WHERE at < ?1 GROUP BY server, start`,
		`DELETE FROM samples WHERE at < ?1`,
		`INSERT INTO samples (server, at, width, sent, read, written) SELECT server, start, width, sent, read, written FROM joined WHERE true
			ON CONFLICT (server, at) DO UPDATE SET sent = sent + excluded.sent, read = read + excluded.read, written = written + excluded.written`,
		`DROP TABLE joined`,
	} {
		if _, err := tx.ExecContext(ctx, step, middle, int64(widest)); err != nil {
			return err
		}
	}
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM samples`).Scan(&n); err != nil || n <= r.maxSamples*7/8 {
		return err
	}
	_, err := tx.ExecContext(
		ctx, `DELETE FROM samples WHERE at < (SELECT at FROM samples ORDER BY at LIMIT 1 OFFSET ?)`,
		n-r.maxSamples*3/4,
	)
	return err
}

// Samples returns the samples in an interval, oldest first.
func (r *Registry) Samples(ctx context.Context, since, until time.Time) ([]Sample, error) {
	rows, err := r.events.read.QueryContext(ctx, `SELECT server, at, width, sent, read, written FROM samples
		WHERE at > ? AND at + width > ? AND at <= ? ORDER BY at, server`, stamp(since.Add(-widest)), stamp(since), stamp(until))
	if err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	defer rows.Close()
	var out []Sample
	for rows.Next() {
		var s Sample
		var at int64
		if err := rows.Scan(&s.Server, &at, &s.Width, &s.Sent, &s.Read, &s.Written); err != nil {
			return nil, fmt.Errorf("read samples: %w", err)
		}
		s.At = unstamp(at)
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	return out, nil
}
