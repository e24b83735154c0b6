package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// maxEvent bounds one encoded event in bytes. The longest event of Pando's own programs has half of that.
const maxEvent = 8 << 10

// encoded is an event in its stored form.
type encoded struct {
	boot   fleet.BootID
	kind   trace.Kind
	body   []byte
	digest any // identifies an event of a node; nil: the event cannot be sent twice
}

// encode makes the stored form of an event.
func encode(e trace.Event) (encoded, error) {
	body, err := trace.Encode(e, maxEvent)
	x := encoded{boot: e.Boot, kind: e.Kind, body: body}
	// A node reports again if it got no reply to its report. Its clock in the event makes both the same.
	if e.Boot != "" && e.Offset != 0 {
		sum := sha256.Sum256(body)
		x.digest = int64(binary.BigEndian.Uint64(sum[:]))
	}
	return x, err
}

// reportedBefore reports whether the same event of a node is already stored.
func (x encoded) reportedBefore(ctx context.Context, tx *sql.Tx) (again bool, err error) {
	if x.digest == nil {
		return false, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM events WHERE boot = ? AND digest = ?)`,
		string(x.boot), x.digest).Scan(&again)
	return again, err
}

func (x encoded) insert(ctx context.Context, tx *sql.Tx) (seq int64, err error) {
	res, err := tx.ExecContext(ctx, `INSERT INTO events (boot, body, digest) VALUES (?, ?, ?)`, string(x.boot), x.body,
		x.digest)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// keeps reports whether an event is within the bounds of its boot.
func (p *Progress) keeps(x encoded) bool {
	events, bytes := EventsPerBoot, int64(BytesPerBoot)
	if x.kind == trace.Info { // many Info events leave room for stages and failures
		events, bytes = events*3/4, bytes*3/4
	}
	return p.kept < events && p.bytes+int64(len(x.body)) <= bytes
}

// tellLeftOut maintains one event on a boot's timeline that says how many events are left out. It returns the event's
// sequence number if it is new, and by how many bytes the timeline grew.
func (p *Progress) tellLeftOut(ctx context.Context, tx *sql.Tx, id fleet.BootID) (seq, grown int64, err error) {
	if p.dropped.Boot == "" {
		return 0, 0, nil
	}
	x, err := encode(trace.Event{
		Time: p.Updated, Boot: id, Node: p.dropped.Node, MAC: p.dropped.MAC, Stage: cmp.Or(p.Stage, p.dropped.Stage),
		Kind: trace.Info,
		Message: fmt.Sprintf("%d events left out: a boot keeps %d, and %d KB of them", p.LeftOut, EventsPerBoot,
			BytesPerBoot>>10),
		Hint: "something on the node reports without end: the last events before this one tell what",
	})
	if err != nil {
		return 0, 0, err
	}
	if p.told != 0 {
		_, err := tx.ExecContext(ctx, `UPDATE events SET body = ? WHERE seq = ?`, x.body, p.told)
		return 0, 0, err
	}
	p.told, err = x.insert(ctx, tx)
	return p.told, int64(len(x.body)), err
}
