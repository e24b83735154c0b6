package access

import (
	"context"
	"time"

	"pando/internal/registry"
)

// EndSession makes a session of the dashboard invalid. The session would expire at `until` anyway.
func (g *Guard) EndSession(ctx context.Context, id [32]byte, until time.Time) error {
	return g.registry.UpdateReserved(ctx, func(tx *registry.Tx) error { return tx.EndSession(id, until, g.now()) })
}

// SessionEnded reports whether somebody has logged out of a session.
func (g *Guard) SessionEnded(ctx context.Context, id [32]byte) (ended bool, err error) {
	err = g.registry.View(ctx, func(tx *registry.Tx) (err error) {
		ended, err = tx.SessionEnded(id)
		return err
	})
	return ended, err
}
