package bootmethod

import (
	"context"
	"fmt"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/rollout"
)

// CheckStage returns why a node cannot fetch its next version ahead, nil if it can.
func (m *Chooser) CheckStage(ctx context.Context, ask fleet.BootMethod, n fleet.Node, b registry.Boot) error {
	is, why, err := m.Choose(ctx, ask, Ahead(ctx, m.registry, n), b)
	if err == nil && is != fleet.MethodSoftReboot {
		err = fmt.Errorf("a version is fetched ahead only for a soft-reboot, and the next boot is by %s: %s", is, why)
	}
	return err
}

// Reader reads the registry.
type Reader interface {
	View(context.Context, func(*registry.Tx) error) error
}

// Ahead returns a node as it will be when its rollout takes it: with the rollout's version. A rollout that cannot be
// read counts as none.
func Ahead(ctx context.Context, reg Reader, n fleet.Node) fleet.Node {
	_ = reg.View(ctx, func(tx *registry.Tx) error {
		live, err := tx.Rollouts(registry.RolloutFilter{Live: true})
		for _, r := range live {
			if r.Group != n.Group || n.Version != "" {
				continue
			}
			if full, e := tx.Rollout(r.ID); e == nil && rollout.StagesFor(full, n.Name) {
				n.Version = full.To
			}
		}
		return err
	})
	return n
}
