package server

import (
	"context"
	"errors"
	"fmt"

	"pando/internal/api"
	"pando/internal/bootplan"
	"pando/internal/fleet"
	"pando/internal/power"
	"pando/internal/registry"
	"pando/internal/rollout"
)

// stagedAtOnce is how many nodes of a rollout are asked to fetch ahead at a time.
const stagedAtOnce = 8

// stage has a running node fetch what its next boot runs.
func (p *powers) stage(ctx context.Context, x powered, do api.PowerDo, who string) (api.PowerDone, error) {
	out := api.PowerDone{Node: x.node.Name, Method: x.to.Method, State: string(power.Unknown), DryRun: do.DryRun}
	if !p.speaks(x) {
		return out, p.tell(ctx, x, do, "", who, errors.New("it does not run, or does not answer"))
	}
	out.State, out.Did = string(power.IsOn), "asked to fetch its next version ahead"
	err := p.methods.stages(ctx, fleet.MethodAuto, x.node, x.boot)
	if err != nil {
		return out, p.tell(ctx, x, do, "", who, err)
	}
	if do.DryRun {
		return out, nil
	}
	rep, err := p.errands.Do(ctx, x.boot.ID, api.Errand{Kind: api.StageNode})
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return out, p.tell(ctx, x, do, out.Did, who, err)
}

// stages says why a node cannot have its next version ahead.
func (m *methods) stages(ctx context.Context, ask fleet.BootMethod, n fleet.Node, b registry.Boot) error {
	is, why, err := m.choose(ctx, ask, bootplan.Ahead(ctx, m.registry, n), b)
	if err == nil && is != fleet.MethodSoftReboot {
		err = fmt.Errorf("only what is gone to by soft-reboot is fetched ahead, and this is by %s: %s", is, why)
	}
	return err
}

// stage asks a node to fetch ahead what a rollout brings it, once in a boot.
func (d *rollouts) stage(ctx context.Context, ask rollout.Ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.staged[ask.Boot] || d.staging >= stagedAtOnce {
		return
	}
	d.staged[ask.Boot] = true
	d.staging++
	d.doing.Go(func() {
		err := d.askToStage(ctx, ask)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.staging--
		if err != nil {
			d.log.Info("a node fetches nothing ahead", "node", ask.Node, "err", err)
		}
	})
}

func (d *rollouts) askToStage(ctx context.Context, ask rollout.Ask) error {
	n, b, err := d.asks(ctx, ask)
	if err == nil {
		err = d.methods.stages(ctx, ask.Method, n, b)
	}
	if err != nil {
		return err
	}
	rep, err := d.errands.Do(ctx, ask.Boot, api.Errand{ID: "stage-" + string(ask.Boot), Kind: api.StageNode})
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return err
}
