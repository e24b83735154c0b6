package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hooks"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/rollout"
	"pando/internal/trace"
)

func (o *operator) listRollouts(r *http.Request) (any, error) {
	var out api.RolloutList
	err := o.reg.View(r.Context(), func(tx *registry.Tx) (err error) {
		out.Rollouts, err = fleetview.Rollouts(tx, registry.RolloutFilter{Group: r.URL.Query().Get("group")})
		return err
	})
	return out, err
}

func (o *operator) showRollout(r *http.Request) (any, error) {
	var out api.Rollout
	err := o.reg.View(r.Context(), func(tx *registry.Tx) error {
		x, err := tx.Rollout(r.PathValue("id"))
		out = fleetview.Rollout(x)
		return err
	})
	return out, err
}

// startRollout answers POST /v1/rollouts.
func (o *operator) startRollout(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.RolloutStart](r)
	if err != nil {
		return nil, err
	}
	req.Plan = req.Plan.WithDefaults()
	if err := o.checkPlan(req.Plan); err != nil {
		return nil, err
	}
	var out fleet.Rollout
	err = o.reg.Update(r.Context(), func(tx *registry.Tx) error {
		next, err := o.versions(tx, req)
		if err != nil {
			return err
		}
		nodes, err := o.candidates(r.Context(), tx, req.Group)
		if err != nil {
			return err
		}
		next.Who = httpapi.CallerName(r)
		if next, err = rollout.Begin(next, nodes, o.now()); err != nil {
			return httpapi.Invalid(err)
		}
		if out, err = tx.CreateRollout(next); err != nil {
			return hintRollout(err)
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	if err != nil {
		return nil, err
	}
	view := fleetview.Rollout(out)
	if view.DryRun = req.DryRun; !req.DryRun {
		o.rollouts.nudge()
	}
	return view, nil
}

// checkPlan refuses a plan that cannot be carried out here.
func (o *operator) checkPlan(p fleet.RolloutPlan) error {
	if err := p.Validate(); err != nil {
		return httpapi.Invalid(err)
	}
	if _, err := time.LoadLocation(p.Zone); err != nil {
		return httpapi.BadRequest(fmt.Sprintf("time zone %q: %v", p.Zone, err), "name it like Europe/Berlin")
	}
	named := []string{p.Drain, p.Undrain, p.Reboot}
	for _, g := range p.Gates {
		if g.Kind() == fleet.GateScript {
			named = append(named, g.Arg())
		}
	}
	for _, name := range named {
		if name == "" {
			continue
		}
		if _, err := hooks.Find(o.rollouts.hooks, name); err != nil {
			return httpapi.BadRequest(
				err.Error(),
				"put an executable file of root's with this name into "+o.rollouts.hooks+" on the server",
			)
		}
	}
	return nil
}

// versions says from what to what a rollout would go.
func (o *operator) versions(tx *registry.Tx, req api.RolloutStart) (fleet.Rollout, error) {
	out := fleet.Rollout{Group: req.Group, Asked: req.Image, Plan: req.Plan}
	g, err := tx.Group(req.Group)
	if err != nil {
		return out, err
	}
	if g.Image == "" {
		return out, httpapi.BadRequest(
			"group "+g.Name+" has no image to return to",
			"give it its first one with `pando group set "+g.Name+" --image NAME`",
		)
	}
	for _, v := range []struct {
		ref fleet.Ref
		to  *fleet.Ref
	}{{g.Image, &out.From}, {req.Image, &out.To}} {
		if v.ref == "" {
			return out, httpapi.BadRequest("no image is named", "")
		}
		if err := fleetview.CheckRef(tx, v.ref); err != nil {
			return out, err
		}
		d, err := tx.Resolve(v.ref)
		if err != nil {
			return out, err
		}
		name, _, _, err := v.ref.Split()
		if err != nil {
			return out, httpapi.Invalid(err)
		}
		if _, err := o.store.Manifest(d); err != nil {
			return out, err
		}
		*v.to = fleet.Ref(name + "@" + string(d))
	}
	next := g
	next.Image = out.To
	if err := o.goTogether(tx, next, fleet.Node{}); err != nil {
		return out, err
	}
	_, _, from, _ := out.From.Split()
	if _, _, to, _ := out.To.Split(); from == to {
		return out, api.NewError(
			api.Conflict,
			fmt.Sprintf("group %s desires %s already, which is %s", g.Name, to.Short(), g.Image),
			"`pando node list @"+g.Name+"` shows nodes that do not run it yet: they do after a reboot",
		)
	}
	return out, nil
}

// usualOf is how many of a node's last boots say how long one takes.
const usualOf = 10

// candidates are the nodes that follow a group's image.
func (o *operator) candidates(ctx context.Context, tx *registry.Tx, group string) ([]rollout.Candidate, error) {
	nodes, err := fleetview.Followers(tx, group)
	if err != nil {
		return nil, err
	}
	views, err := o.views.Views(ctx, tx, nodes)
	if err != nil {
		return nil, err
	}
	var out []rollout.Candidate
	for _, n := range views {
		c := rollout.Candidate{Name: n.Name, Seen: n.Seen}
		c.Up = n.Boot != nil && n.Boot.State == trace.Up && o.now().Sub(n.Seen) <= heardWithin
		if n.Hardware != nil {
			c.Class = n.Hardware.Vendor + " " + n.Hardware.Product
		}
		if n.Status != nil && n.Status.Systemd != nil {
			c.Broken = n.Status.Systemd.Failed
		}
		if c.Usual, err = o.usual(ctx, tx, n.Name); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// usual is the median of how long a node's last boots took that came up; 0: none did.
func (o *operator) usual(ctx context.Context, tx *registry.Tx, node string) (time.Duration, error) {
	boots, err := tx.Boots(registry.BootFilter{Node: node, Limit: usualOf})
	if err != nil {
		return 0, err
	}
	var ids []fleet.BootID
	for _, b := range boots {
		if !fleet.SkipsFirmware(b.Firmware) {
			ids = append(ids, b.ID)
		}
	}
	progress, err := o.reg.Progress(ctx, ids...)
	if err != nil {
		return 0, err
	}
	var took []time.Duration
	for _, p := range progress {
		if !p.Ready.IsZero() {
			took = append(took, p.Elapsed())
		}
	}
	return trace.Percentile(took, 0.5), nil
}

// hintRollout says what to do about a rollout that is in the way.
func hintRollout(err error) error {
	if errors.Is(err, registry.ErrInUse) {
		return httpapi.WithHint(err, "`pando rollout list` shows it; wait for its end, or abort it")
	}
	return err
}

func (o *operator) pauseRollout(r *http.Request) (any, error) {
	return o.changeRollout(r, func(x fleet.Rollout) (fleet.Rollout, error) { return rollout.Pause(x, httpapi.CallerName(r)) })
}

func (o *operator) resumeRollout(r *http.Request) (any, error) {
	return o.changeRollout(r, rollout.Resume)
}

func (o *operator) abortRollout(r *http.Request) (any, error) {
	return o.changeRollout(r, func(x fleet.Rollout) (fleet.Rollout, error) { return rollout.Abort(x, httpapi.CallerName(r)) })
}

// changeRollout changes a rollout as an operator wants; what follows from it is done by the next step, which is now.
func (o *operator) changeRollout(r *http.Request, change func(fleet.Rollout) (fleet.Rollout, error)) (any, error) {
	var out api.Rollout
	err := o.reg.Update(r.Context(), func(tx *registry.Tx) error {
		was, err := tx.Rollout(r.PathValue("id"))
		if err != nil {
			return err
		}
		is, err := change(was)
		if err != nil {
			return api.NewError(api.Conflict, err.Error(), "")
		}
		out = fleetview.Rollout(is)
		return tx.PutRollout(is, was.Nodes)
	})
	if err != nil {
		return nil, err
	}
	o.rollouts.nudge()
	return out, nil
}

func (o *operator) deleteRollout(r *http.Request) (any, error) {
	err := o.reg.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteRollout(r.PathValue("id")) })
	return nil, hintRollout(err)
}
