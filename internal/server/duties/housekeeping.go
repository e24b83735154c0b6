package duties

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"pando/internal/registry"
)

// How often housekeeping runs, and how long the lease of a machine that does not come back is remembered.
const (
	every     = time.Hour
	leaseKept = 90 * 24 * time.Hour
)

// Housekeeping forgets what is of no use any more, and does the tasks of others, until ctx ends.
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
			log.Error("housekeeping", "err", err)
		}
	}
}

// once does all of it; what fails keeps nothing else from being done.
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
