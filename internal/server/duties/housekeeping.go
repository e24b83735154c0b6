package duties

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"pando/internal/registry"
)

// How often housekeeping runs, and how long the expired lease of a machine is kept.
const (
	every     = time.Hour
	leaseKept = 90 * 24 * time.Hour
)

// Housekeeping deletes old leases and runs the given tasks every hour until ctx ends.
func Housekeeping(
	ctx context.Context,
	reg *registry.Registry,
	now func() time.Time,
	log *slog.Logger,
	tasks ...func(context.Context) error,
) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := once(ctx, reg, now(), tasks); err != nil && ctx.Err() == nil {
			log.Error("housekeeping failed", "err", err)
		}
	}
}

// once runs everything once. A failure does not stop the rest.
func once(ctx context.Context, reg *registry.Registry, now time.Time, tasks []func(context.Context) error) error {
	err := reg.UpdateReserved(ctx, func(tx *registry.Tx) error {
		_, err := tx.DeleteExpired(now.Add(-leaseKept))
		return err
	})
	for _, task := range tasks {
		err = errors.Join(err, task(ctx))
	}
	return err
}
