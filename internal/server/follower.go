package server

import (
	"context"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/journal"
)

// nextBootEvery is how often a node whose journal is followed is asked for another boot.
const nextBootEvery = 5 * time.Second

// follower shows browsers the journals of nodes as they grow.
type follower struct{ s *Server }

// Follow follows the journal of a node's latest boot, and that of the next one when there is one.
func (f follower) Follow(ctx context.Context, node string, q api.JournalQuery, fn func(api.JournalLine) error) error {
	query := journal.Query{
		Unit:     httpapi.Clip(q.Unit, maxPattern),
		Grep:     httpapi.Clip(q.Grep, maxPattern),
		Priority: q.Priority,
		Since:    q.Since,
		Until:    q.Until,
		Last:     q.Last,
	}
	for {
		of, err := f.s.operator().journalOf(ctx, node, q.Boot)
		if err != nil {
			return err
		}
		err = f.followBoot(ctx, of, query, fn)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// followBoot ends without an error when the node has another boot.
func (f follower) followBoot(
	ctx context.Context,
	of api.Journal,
	q journal.Query,
	fn func(api.JournalLine) error,
) error {
	defer f.s.journals.watch(of.Node)()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for ctx.Err() == nil && f.latest(ctx, of.Node) == of.Boot {
			select {
			case <-ctx.Done():
			case <-time.After(nextBootEvery):
			}
		}
		stop()
	}()
	return f.s.journals.Follow(
		ctx,
		of.Node,
		string(of.Boot),
		q,
		func(l journal.Line) error { return fn(api.JournalLine(l)) },
	)
}

func (f follower) latest(ctx context.Context, node string) fleet.BootID {
	j, err := f.s.operator().journalOf(ctx, node, "")
	if err != nil {
		return ""
	}
	return j.Boot
}
