package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Failed logins are summed up in the audit log, because anyone who reaches the login page can cause them.
const (
	failureSpan  = 10 * time.Minute // each address has one entry in this time
	maxFailing   = 100              // addresses with an entry of their own at a time; the others share one
	failingOther = "other addresses"
)

// failures counts the failed logins of each address.
type failures struct {
	mu sync.Mutex
	of map[string]*failure
}

// failure is an entry of the audit log that counts the failed logins of one address.
type failure struct {
	line    registry.Audited // the last failed login
	since   time.Time
	who     string
	count   int
	writing bool // a caller is writing the entry now, without the lock
	due     bool // that caller must write it again, because the count has doubled since
}

// add counts a failed login. write says that the caller must write the entry: at the first failure and when the count
// doubles, so that a million attempts cause twenty writes.
func (f *failures) add(a registry.Audited) (x *failure, line registry.Audited, write bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, x := range f.of {
		if a.At.Sub(x.since) >= failureSpan {
			delete(f.of, key)
		}
	}
	if f.of[a.From] == nil && len(f.of) >= maxFailing {
		a.From = failingOther
	}
	if x = f.of[a.From]; x == nil {
		x = &failure{since: a.At, who: a.Who}
		f.of[a.From] = x
	}
	if x.count++; x.who != a.Who {
		x.who = "several users"
	}
	a.Seq = x.line.Seq
	x.line = a
	if x.count&(x.count-1) != 0 {
		return x, line, false
	}
	x.due = x.writing
	write, x.writing = !x.writing, true
	return x, x.text(), write
}

// wrote records the sequence number of an entry that was written. again says that the caller must write the entry once
// more, because the count has doubled meanwhile.
func (f *failures) wrote(x *failure, seq int64) (line registry.Audited, again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.line.Seq = seq
	x.writing, x.due = x.due, false
	return x.text(), x.writing
}

// text returns the entry with its count.
func (x *failure) text() registry.Audited {
	a := x.line
	a.Who = x.who
	if x.count > 1 {
		a.Error = fmt.Sprintf("%s (%d or more failed logins since %s)", a.Error, x.count, x.since.Format(time.TimeOnly))
	}
	return a
}

// auditFailure records a failed login, or counts it in the entry of its address. Only the caller that writes the entry
// waits for the disk.
func (g *Guard) auditFailure(ctx context.Context, a registry.Audited, err error) {
	e := httpapi.ErrorOf(err)
	a.Status, a.Error = e.Status, cut(e.Message, auditText)
	x, line, write := g.failures.add(a)
	for write {
		seq := line.Seq
		wrote := g.writeAudit(ctx, line, func(tx *registry.Tx) (err error) {
			if line.Seq > 0 {
				return tx.AmendAudited(line)
			}
			seq, err = tx.AppendAuditedSeq(line)
			return err
		})
		if !wrote {
			seq = line.Seq
		}
		line, write = g.failures.wrote(x, seq)
	}
}

// writeAudit writes to the audit log, even if the client is gone. It reports whether that succeeded.
func (g *Guard) writeAudit(ctx context.Context, a registry.Audited, write func(*registry.Tx) error) (wrote bool) {
	err := g.registry.UpdateReserved(context.WithoutCancel(ctx), write)
	if err != nil {
		g.log.Error("audit log cannot be written", "who", a.Who, "path", a.Path, "err", err)
	}
	return err == nil
}
