package server

import (
	"context"

	"pando/internal/api"
	"pando/internal/journal"
)

// follower shows browsers the journals of nodes as they grow.
type follower struct{ s *Server }

// Follow follows the journal of a node's latest boot.
func (f follower) Follow(ctx context.Context, node string, q api.JournalQuery, fn func(api.JournalLine) error) error {
	of, err := f.s.operator().journalOf(ctx, node, q.Boot)
	if err != nil {
		return err
	}
	defer f.s.journals.watch(of.Node)()
	query := journal.Query{Unit: clip(q.Unit, maxPattern), Grep: clip(q.Grep, maxPattern), Priority: q.Priority, Since: q.Since, Until: q.Until, Last: q.Last}
	return f.s.journals.Follow(ctx, of.Node, string(of.Boot), query, func(l journal.Line) error { return fn(api.JournalLine(l)) })
}
