package access

import (
	"context"
	"fmt"
	"sync"
	"time"

	"pando/internal/httpapi"
	"pando/internal/registry"
)

// Failed logins are summed in the audit log: anybody who reaches the login page can make them.
const (
	failureSpan  = 10 * time.Minute // one line for each address in this time
	maxFailing   = 100              // addresses with a line of their own at a time; the others share one
	failingOther = "other addresses"
)

// failures are the failed logins of each address.
type failures struct {
	mu sync.Mutex
	of map[string]*failure
}

// failure is a line of the audit log that counts.
type failure struct {
	since time.Time
	seq   int64
	who   string
	count int
}

// add counts a failed login. write is true when its line is to be written: at the first, and when the count doubles, so
// that a million attempts are twenty writes.
func (f *failures) add(now time.Time, from, who string) (from2 string, x *failure, write bool) {
	for key, x := range f.of {
		if now.Sub(x.since) >= failureSpan {
			delete(f.of, key)
		}
	}
	if f.of[from] == nil && len(f.of) >= maxFailing {
		from = failingOther
	}
	if x = f.of[from]; x == nil {
		x = &failure{since: now, who: who}
		f.of[from] = x
	}
	if x.count++; x.who != who {
		x.who = "several users"
	}
	return from, x, x.count&(x.count-1) == 0
}

// auditFailure records a failed login, or counts it on the line of its address.
func (g *Guard) auditFailure(ctx context.Context, a registry.Audited, err error) {
	e := httpapi.ErrorOf(err)
	a.Status, a.Error = e.Status, cut(e.Message, auditText)
	g.failures.mu.Lock()
	defer g.failures.mu.Unlock()
	from, x, write := g.failures.add(a.At, a.From, a.Who)
	if !write {
		return
	}
	a.From, a.Who, a.Seq = from, x.who, x.seq
	if x.count > 1 {
		a.Error = fmt.Sprintf("%s (%d or more failed logins since %s)", a.Error, x.count, x.since.Format(time.TimeOnly))
	}
	g.writeAudit(ctx, a, func(tx *registry.Tx) error {
		if x.seq > 0 {
			return tx.AmendAudited(a)
		}
		x.seq, err = tx.AppendAuditedSeq(a)
		return err
	})
}

// writeAudit writes to the audit log, even if the client has gone.
func (g *Guard) writeAudit(ctx context.Context, a registry.Audited, write func(*registry.Tx) error) {
	if err := g.registry.UpdateReserved(context.WithoutCancel(ctx), write); err != nil {
		g.log.Error("audit log cannot be written", "who", a.Who, "path", a.Path, "err", err)
	}
}
