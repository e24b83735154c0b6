package logs

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/journal"
)

// nextBootEvery is how often followers check whether the node has booted again.
const nextBootEvery = 5 * time.Second

// Follow calls fn for each line of the journal of a node's latest boot. When the node boots again, it goes on with that
// boot.
func (s *Journals) Follow(ctx context.Context, node string, q api.JournalQuery, fn func(api.JournalLine) error) error {
	query := journal.Query{
		Unit:     httpapi.Clip(q.Unit, maxPattern),
		Grep:     httpapi.Clip(q.Grep, maxPattern),
		Priority: q.Priority,
		Since:    q.Since,
		Until:    q.Until,
		Last:     q.Last,
	}
	for {
		of, err := s.journalOf(ctx, node, q.Boot)
		if err != nil {
			return err
		}
		err = s.followBoot(ctx, of, query, fn)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// followBoot follows the journal of one boot. It returns nil when the node has a newer boot.
func (s *Journals) followBoot(
	ctx context.Context,
	of api.Journal,
	q journal.Query,
	fn func(api.JournalLine) error,
) error {
	defer s.Watch(of.Node)()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ctx.Err() == nil && s.latest(ctx, of.Node) == of.Boot {
			select {
			case <-ctx.Done():
			case <-time.After(nextBootEvery):
			}
		}
		stop()
	}()
	return s.dir.Follow(
		ctx,
		of.Node,
		string(of.Boot),
		q,
		func(l journal.Line) error { return fn(api.JournalLine(l)) },
	)
}

func (s *Journals) latest(ctx context.Context, node string) fleet.BootID {
	j, err := s.journalOf(ctx, node, "")
	if err != nil {
		return ""
	}
	return j.Boot
}
