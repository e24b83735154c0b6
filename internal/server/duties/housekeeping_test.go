package duties

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
)

// TestHousekeeping: leases are kept for 90 days after they expired, and a task that fails does not stop the others.
func TestHousekeeping(t *testing.T) {
	reg, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old, recent := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	leases := []fleet.Lease{
		{Addr: old, MAC: fleet.MAC{2, 0, 0, 0, 0, 1}, Expires: now.Add(-leaseKept - time.Second)},
		{Addr: recent, MAC: fleet.MAC{2, 0, 0, 0, 0, 2}, Expires: now.Add(-leaseKept + time.Second)},
	}
	err = reg.Update(t.Context(), func(tx *registry.Tx) error {
		return errors.Join(tx.PutLease(leases[0]), tx.PutLease(leases[1]))
	})
	if err != nil {
		t.Fatal(err)
	}
	broken, did := errors.New("broken"), false
	err = once(t.Context(), reg, now, []func(context.Context) error{
		func(context.Context) error { return broken },
		func(context.Context) error { did = true; return nil },
	})
	if !errors.Is(err, broken) || !did {
		t.Errorf("a task failed: %v, the next one was done: %v", err, did)
	}
	var left []fleet.Lease
	err = reg.View(t.Context(), func(tx *registry.Tx) (err error) {
		left, err = tx.Leases()
		return err
	})
	if err != nil || len(left) != 1 || left[0].Addr != recent {
		t.Errorf("leases that are left: %+v, %v", left, err)
	}
}
