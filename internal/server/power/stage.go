package power

import (
	"context"
	"errors"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/power"
)

// stage makes a running node fetch what its next boot runs.
func (p *Controller) stage(ctx context.Context, x powered, do api.PowerDo, who string) (api.PowerDone, error) {
	out := api.PowerDone{Node: x.node.Name, Method: x.to.Method, State: string(power.Unknown), DryRun: do.DryRun}
	if !p.speaks(x) {
		return out, p.tell(ctx, x, do, "", who, errors.New("it does not run, or does not answer"))
	}
	out.State, out.Did = string(power.IsOn), "asked to fetch its next version ahead"
	err := p.methods.CheckStage(ctx, fleet.MethodAuto, x.node, x.boot)
	if err != nil {
		return out, p.tell(ctx, x, do, "", who, err)
	}
	if do.DryRun {
		return out, nil
	}
	rep, err := p.commands.Do(ctx, x.boot.ID, api.NodeCommand{Kind: api.StageNode})
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return out, p.tell(ctx, x, do, out.Did, who, err)
}
