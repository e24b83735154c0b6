package nodecommand

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// reportTimeout is how long an operator's request waits for a node. Nodes report about once a minute.
const reportTimeout = 3 * time.Minute

// Queue holds at most one command per boot, in memory. The requester waits for the node's report; after a restart of
// the server the requester must give the command again.
type Queue struct {
	wake func(context.Context, fleet.BootID)

	mu   sync.Mutex
	open map[fleet.BootID]*pending
}

// NewQueue returns an empty queue. wake makes the node of a boot report now; if it is nil, the node reports within a
// minute.
func NewQueue(wake func(context.Context, fleet.BootID)) *Queue { return &Queue{wake: wake} }

type pending struct {
	api.NodeCommand
	done   chan api.NodeCommandReport
	config map[string]string // digests of the config files that the node was sent for it
}

// Pending returns the command of a boot, nil if there is none. It returns the command until the node has reported its
// result, because a reply may be lost. Nodes execute a command only once.
func (q *Queue) Pending(boot fleet.BootID) *api.NodeCommand {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.open[boot]; x != nil {
		return &x.NodeCommand
	}
	return nil
}

// Do gives a boot a command and waits for the report. A node executes commands with the same ID once.
func (q *Queue) Do(ctx context.Context, boot fleet.BootID, what api.NodeCommand) (api.NodeCommandReport, error) {
	if what.ID == "" {
		what.ID = rand.Text()
	}
	x := &pending{NodeCommand: what, done: make(chan api.NodeCommandReport, 1)}
	q.mu.Lock()
	if q.open == nil {
		q.open = map[fleet.BootID]*pending{}
	}
	busy := q.open[boot] != nil
	if !busy {
		q.open[boot] = x
	}
	q.mu.Unlock()
	if busy {
		return api.NodeCommandReport{}, api.NewError(
			api.Conflict,
			"the node is executing another command",
			"try again in a minute",
		)
	}
	defer q.forget(boot)
	if q.wake != nil {
		q.wake(ctx, boot)
	}
	enough := time.NewTimer(reportTimeout)
	defer enough.Stop()
	select {
	case r := <-x.done:
		return r, nil
	case <-enough.C:
		return api.NodeCommandReport{}, api.NewError(
			api.Conflict,
			fmt.Sprintf("the node has not answered for %s", reportTimeout),
			"does it run? `pando node show` tells when it was seen",
		)
	case <-ctx.Done():
		return api.NodeCommandReport{}, context.Cause(ctx)
	}
}

func (q *Queue) forget(boot fleet.BootID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, boot)
}

// Report passes a node's report to the request that waits for it, if there is one.
func (q *Queue) Report(r api.NodeCommandReport) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.open[r.Boot]; x != nil && x.ID == r.ID {
		select {
		case x.done <- r:
		default: // the node has reported twice
		}
	}
}

// Handed records the digests of the config files that a node was sent for its command.
func (q *Queue) Handed(boot fleet.BootID, digests map[string]string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.open[boot]; x != nil {
		x.config = digests
	}
}

// WasHanded returns the digests that Handed recorded, and whether the command was a dry run. It returns nil if the
// report is about another command.
func (q *Queue) WasHanded(r api.NodeCommandReport) (digests map[string]string, dryRun bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x := q.open[r.Boot]; x != nil && x.ID == r.ID && x.Kind == api.SyncConfig && r.Error == "" {
		return x.config, x.DryRun
	}
	return nil, false
}
