package rollouts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hooks"
	"pando/internal/httpapi"
	"pando/internal/lastseen"
	"pando/internal/registry"
	"pando/internal/rollout"
	"pando/internal/trace"
)

// Routes returns the routes of rollouts.
func (d *Runner) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/rollouts", httpapi.JSON(d.listRollouts)),
		httpapi.NewRoute("POST", "/v1/rollouts", httpapi.JSON(d.startRollout)),
		httpapi.NewRoute("GET", "/v1/rollouts/{id}", httpapi.JSON(d.showRollout)),
		httpapi.NewRoute("POST", "/v1/rollouts/{id}/pause", httpapi.JSON(d.pauseRollout)),
		httpapi.NewRoute("POST", "/v1/rollouts/{id}/resume", httpapi.JSON(d.resumeRollout)),
		httpapi.NewRoute("POST", "/v1/rollouts/{id}/abort", httpapi.JSON(d.abortRollout)),
		httpapi.NewRoute("DELETE", "/v1/rollouts/{id}", httpapi.JSON(d.deleteRollout)),
	}
}

func (d *Runner) listRollouts(r *http.Request) (any, error) {
	var out api.RolloutList
	err := d.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		out.Rollouts, err = fleetview.Rollouts(tx, registry.RolloutFilter{Group: r.URL.Query().Get("group")})
		return err
	})
	return out, err
}

func (d *Runner) showRollout(r *http.Request) (any, error) {
	var out api.Rollout
	err := d.registry.View(r.Context(), func(tx *registry.Tx) error {
		x, err := tx.Rollout(r.PathValue("id"))
		out = fleetview.Rollout(x)
		return err
	})
	return out, err
}

// startRollout answers POST /v1/rollouts.
func (d *Runner) startRollout(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.RolloutStart](r)
	if err != nil {
		return nil, err
	}
	req.Plan = req.Plan.WithDefaults()
	if err := d.checkPlan(req.Plan); err != nil {
		return nil, err
	}
	var out fleet.Rollout
	var tried []string
	err = d.registry.Update(r.Context(), func(tx *registry.Tx) error {
		next, err := d.fromTo(tx, req)
		if err != nil {
			return err
		}
		if tried, err = unpinTried(tx, next); err != nil {
			return err
		}
		nodes, err := d.candidates(r.Context(), tx, req.Group, tried)
		if err != nil {
			return err
		}
		next.Who = httpapi.CallerName(r)
		if next, err = rollout.Begin(next, nodes, d.now()); err != nil {
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
		var notes []rollout.Note
		for _, name := range tried {
			notes = append(notes, rollout.Note{Node: name, Message: "is a canary: it was given " + out.To.Short() +
				" before, and has its group's image from now on"})
		}
		d.tell(r.Context(), out, notes)
		d.lookNow()
	}
	return view, nil
}

// unpinTried makes the nodes of a group that were given the new version for a try follow their group. They take part in
// the rollout, so that they return with the others if the version turns out to be bad.
func unpinTried(tx *registry.Tx, r fleet.Rollout) (names []string, err error) {
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.Group != r.Group || n.State != fleet.Adopted || n.Version == "" || n.Follow {
			continue
		}
		has, err := tx.Resolve(n.Version)
		if _, _, to, _ := r.To.Split(); err != nil || has != to {
			continue // what it has may be gone; it is not this version
		}
		n.Version = ""
		if err := tx.PutNode(n.Name, n); err != nil {
			return nil, err
		}
		names = append(names, n.Name)
	}
	return names, nil
}

// checkPlan refuses a plan that cannot be carried out here.
func (d *Runner) checkPlan(p fleet.RolloutPlan) error {
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
		if _, err := hooks.Find(d.hooks, name); err != nil {
			return httpapi.BadRequest(
				err.Error(),
				"put an executable file of root's with this name into "+d.hooks+" on the server",
			)
		}
	}
	return nil
}

// fromTo resolves the versions that a rollout starts from and goes to.
func (d *Runner) fromTo(tx *registry.Tx, req api.RolloutStart) (fleet.Rollout, error) {
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
		digest, err := tx.Resolve(v.ref)
		if err != nil {
			return out, err
		}
		name, _, _, err := v.ref.Split()
		if err != nil {
			return out, httpapi.Invalid(err)
		}
		if _, err := d.store.Manifest(digest); err != nil {
			return out, err
		}
		*v.to = fleet.Ref(name + "@" + string(digest))
	}
	next := g
	next.Image = out.To
	if err := d.versions.GoTogether(tx, next.Image, next.ExtensionList()); err != nil {
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

// usualOf is how many of a node's last boots determine its usual boot time.
const usualOf = 10

// candidates returns the nodes that follow a group's image. tried are those that had the new version before.
func (d *Runner) candidates(
	ctx context.Context,
	tx *registry.Tx,
	group string,
	tried []string,
) ([]rollout.Candidate, error) {
	nodes, err := fleetview.Followers(tx, group)
	if err != nil {
		return nil, err
	}
	views, err := d.views.Views(ctx, tx, nodes)
	if err != nil {
		return nil, err
	}
	var out []rollout.Candidate
	for _, n := range views {
		c := rollout.Candidate{Name: n.Name, Seen: n.Seen, Tried: slices.Contains(tried, n.Name)}
		c.Up = n.Boot != nil && n.Boot.State.Runs() && d.now().Sub(n.Seen) <= lastseen.Within
		if n.Hardware != nil {
			c.Class = n.Hardware.Vendor + " " + n.Hardware.Product
		}
		if n.Status != nil && n.Status.Systemd != nil {
			c.Broken = n.Status.Systemd.Failed
		}
		if c.Usual, err = d.UsualTime(ctx, tx, n.Name); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// UsualTime returns the median time of a node's last successful boots through firmware, 0 without one.
func (d *Runner) UsualTime(ctx context.Context, tx *registry.Tx, node string) (time.Duration, error) {
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
	progress, err := d.registry.Progress(ctx, ids...)
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

// hintRollout adds the hint what to do about another live rollout of the group.
func hintRollout(err error) error {
	if errors.Is(err, registry.ErrInUse) {
		return httpapi.WithHint(err, "`pando rollout list` shows it; wait for its end, or abort it")
	}
	return err
}

func (d *Runner) pauseRollout(r *http.Request) (any, error) {
	return d.changeRollout(
		r,
		func(x fleet.Rollout) (fleet.Rollout, error) { return rollout.Pause(x, httpapi.CallerName(r)) },
	)
}

func (d *Runner) resumeRollout(r *http.Request) (any, error) {
	return d.changeRollout(r, rollout.Resume)
}

func (d *Runner) abortRollout(r *http.Request) (any, error) {
	return d.changeRollout(
		r,
		func(x fleet.Rollout) (fleet.Rollout, error) { return rollout.Abort(x, httpapi.CallerName(r)) },
	)
}

// changeRollout changes a rollout for an operator and wakes Run.
func (d *Runner) changeRollout(r *http.Request, change func(fleet.Rollout) (fleet.Rollout, error)) (any, error) {
	var out api.Rollout
	err := d.registry.Update(r.Context(), func(tx *registry.Tx) error {
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
	d.lookNow()
	return out, nil
}

func (d *Runner) deleteRollout(r *http.Request) (any, error) {
	err := d.registry.Update(r.Context(), func(tx *registry.Tx) error { return tx.DeleteRollout(r.PathValue("id")) })
	return nil, hintRollout(err)
}
