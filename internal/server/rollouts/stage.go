package rollouts

import (
	"context"
	"errors"

	"pando/internal/api"
	"pando/internal/rollout"
)

// stagedAtOnce is how many nodes are told to fetch ahead at a time.
const stagedAtOnce = 8

// stage makes a node fetch its next version ahead, once per boot.
func (d *Runner) stage(ctx context.Context, ask rollout.Ask) {
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
			d.log.Info("node cannot fetch its next version ahead", "node", ask.Node, "err", err)
		}
	})
}

func (d *Runner) askToStage(ctx context.Context, ask rollout.Ask) error {
	n, b, err := d.asks(ctx, ask)
	if err == nil {
		err = d.methods.CheckStage(ctx, ask.Method, n, b)
	}
	if err != nil {
		return err
	}
	rep, err := d.commands.Do(ctx, ask.Boot, api.NodeCommand{ID: "stage-" + string(ask.Boot), Kind: api.StageNode})
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return err
}
