package power

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/bootmethod"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hooks"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/lastseen"
	"pando/internal/power"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Commands sends commands to running nodes.
type Commands interface {
	Do(context.Context, fleet.BootID, api.NodeCommand) (api.NodeCommandReport, error)
}

// Config is what a Controller needs.
type Config struct {
	Registry *registry.Registry
	Keys     identity.Keys // seals the passwords of management controllers
	Commands Commands
	Methods  *bootmethod.Chooser
	LastSeen func(fleet.Node) time.Time
	Hooks    string    // directory of hooks, for the power method "command"
	Started  time.Time // when this server started
	Now      func() time.Time
	Log      *slog.Logger

	Pace func(context.Context) // pauses between two nodes that are switched on; nil: wakePace
}

// Controller switches nodes on and off: for operators, by timetables, and after a power cut.
type Controller struct {
	registry *registry.Registry
	keys     identity.Keys
	commands Commands
	methods  *bootmethod.Chooser
	lastSeen func(fleet.Node) time.Time
	sw       power.Switch
	started  time.Time
	zone     func() *time.Location // of timetables without a time zone
	now      func() time.Time
	log      *slog.Logger

	pace  func(context.Context)
	doing sync.WaitGroup
}

// wakePace is the pause between two nodes that the server wakes by itself. Machines that start together draw the most
// current and load everything at the same time.
const wakePace = 2 * time.Second

// New returns a Controller.
func New(c Config) *Controller {
	p := &Controller{
		registry: c.Registry, keys: c.Keys, commands: c.Commands, methods: c.Methods, lastSeen: c.LastSeen,
		started: c.Started, now: c.Now, log: c.Log, pace: c.Pace,
		zone: func() *time.Location { return time.Local },
		sw: power.Switch{
			Links: power.Links,
			Find:  func(name string) (string, error) { return hooks.Find(c.Hooks, name) },
		},
	}
	if p.pace == nil {
		p.pace = func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-time.After(wakePace):
			}
		}
	}
	return p
}

// Wait waits for actions that the server started by itself.
func (p *Controller) Wait() { p.doing.Wait() }

// powered is what must be known about a node to switch it.
type powered struct {
	node     fleet.Node
	group    fleet.Group // with the node's own settings
	to       fleet.PowerTo
	password string
	boot     registry.Boot
	wish     *fleet.PowerWish
	hours    *fleet.Timetable
	zone     *time.Location
	problem  error // why the node cannot be switched; nil if it can
}

// sealedFor returns the purpose that a password is sealed for. It contains no node name, because nodes can be renamed.
func sealedFor(of registry.PowerOwner) string { return "power password of a " + string(of) }

// of collects what must be known to switch nodes.
func (p *Controller) of(tx *registry.Tx, nodes []fleet.Node) ([]powered, error) {
	groups, err := tx.Groups()
	if err != nil {
		return nil, err
	}
	byName := map[string]fleet.Group{}
	for _, g := range groups {
		byName[g.Name] = g
	}
	wishes, err := tx.PowerWishes()
	if err != nil {
		return nil, err
	}
	boots, err := tx.LatestBoots()
	if err != nil {
		return nil, err
	}
	out := make([]powered, len(nodes))
	for i, n := range nodes {
		x := powered{node: n, group: n.Settings.Of(byName[n.Group]), boot: boots[n.Name]}
		if w, ok := wishes[n.Name]; ok {
			x.wish = &w
		}
		x.to, x.problem = n.PowerTo(fleet.ValueOf(x.group.Power))
		if x.problem == nil {
			x.password, x.problem = p.password(tx, n)
		}
		if x.problem == nil && x.to.Secret() && x.password == "" {
			x.problem = fmt.Errorf(
				"no password of its controller is kept: pando node password %s, or pando group password %s",
				n.Name,
				n.Group,
			)
		}
		if x.hours, x.zone, err = p.timetable(fleet.ValueOf(x.group.Hours)); err != nil {
			x.hours, x.zone, x.problem = nil, p.zone(), errors.Join(x.problem, err)
		}
		out[i] = x
	}
	return out, nil
}

// password returns the node's own password, or its group's, "" for none.
func (p *Controller) password(tx *registry.Tx, n fleet.Node) (string, error) {
	for _, o := range []struct {
		of   registry.PowerOwner
		name string
	}{{registry.PowerOfNode, n.Name}, {registry.PowerOfGroup, n.Group}} {
		sealed, err := tx.PowerPassword(o.of, o.name)
		if fleetview.Absent(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		secret, err := p.keys.Open(sealedFor(o.of), sealed)
		if err != nil {
			return "", fmt.Errorf("password of the controllers of %s %s: %w", o.of, o.name, err)
		}
		return string(secret), nil
	}
	return "", nil
}

// timetable parses hours, and returns the time zone that they mean. It returns nil for no hours.
func (p *Controller) timetable(h fleet.Hours) (*fleet.Timetable, *time.Location, error) {
	if h == "" {
		return nil, p.zone(), nil
	}
	t, err := h.Parse()
	if err != nil || t.Zone == "" {
		return &t, p.zone(), err
	}
	zone, err := time.LoadLocation(t.Zone)
	return &t, zone, err
}

// wanted reports whether a node should be on, and whether a timetable or a wish says so.
func (p *Controller) wanted(x powered) (on, known bool) {
	return fleet.Wanted(x.hours, x.wish, p.now().In(x.zone))
}

// quiet returns how long ago a node was last seen, and whether it was ever seen.
func (p *Controller) quiet(x powered) (time.Duration, bool) {
	last := p.lastSeen(x.node)
	return p.now().Sub(last), !last.IsZero()
}

// speaks reports whether a node runs and accepts commands.
func (p *Controller) speaks(x powered) bool {
	quiet, ever := p.quiet(x)
	return ever && quiet <= lastseen.Within && !x.boot.Session.IsZero()
}

// do switches a node and records an event. It records the wish first, so that WakeLost completes an action that was cut
// short.
func (p *Controller) do(ctx context.Context, x powered, do api.PowerDo, who string) (api.PowerDone, error) {
	out := api.PowerDone{Node: x.node.Name, Method: x.to.Method, State: string(power.Unknown), DryRun: do.DryRun}
	if method, boots := do.Action.BootMethod(); boots {
		return p.bootAgain(ctx, x, do, method, who)
	}
	if do.Action == api.PowerStage {
		return p.stage(ctx, x, do, who)
	}
	if x.problem != nil {
		return out, p.tell(ctx, x, do, "", who, x.problem)
	}
	if do.Action == api.PowerWake {
		return p.wake(ctx, x, do, who)
	}
	if do.Action != api.PowerStatus && !do.DryRun {
		wish := fleet.PowerWish{Node: x.node.Name, On: do.Action != api.PowerOff, At: p.now(), Who: who}
		err := p.registry.UpdateReserved(ctx, func(tx *registry.Tx) error { return tx.PutPowerWish(wish) })
		if err != nil {
			return out, err
		}
	}
	if do.DryRun && do.Action != api.PowerStatus {
		out.Did = string(do.Action)
		return out, nil
	}
	state, did, err := p.act(ctx, x, do)
	out.State, out.Did = string(state), did
	return out, p.tell(ctx, x, do, did, who, err)
}

// act switches a node, through its agent if its power method cannot.
func (p *Controller) act(ctx context.Context, x powered, do api.PowerDo) (power.State, string, error) {
	state, err := p.sw.Do(
		ctx,
		power.Request{Action: power.Action(do.Action), To: x.to, Node: x.node.Name, MACs: x.node.MACs,
			Password: x.password, Force: do.Force, Network: do.Network},
	)
	if state == power.Unknown && p.speaks(x) {
		state = power.IsOn
	}
	did := did(do, state)
	if errors.Is(err, power.ErrAgent) {
		return p.byAgent(ctx, x, do)
	}
	if err != nil {
		did = ""
	}
	return state, did, err
}

// did describes what an action did, "" if it changed nothing.
func did(do api.PowerDo, state power.State) string {
	switch {
	case do.Action == api.PowerStatus,
		do.Action == api.PowerOn && state == power.IsOn,
		do.Action == api.PowerOff && state == power.IsOff:
		return ""
	case do.Action == api.PowerOn, state == power.IsOff:
		return "switched on"
	case do.Action == api.PowerCycle:
		return "switched off and on"
	case do.Force:
		return "switched off"
	}
	return "asked to shut down"
}

// byAgent makes the agent shut down a node whose power method can only switch on.
func (p *Controller) byAgent(ctx context.Context, x powered, do api.PowerDo) (power.State, string, error) {
	if !p.speaks(x) {
		if do.Action == api.PowerCycle {
			return power.Unknown, "", errors.New(
				"it does not run, or does not answer, and Wake-on-LAN can only switch on: pando node power on",
			)
		}
		return power.Unknown, "", errors.New(
			"it does not run, or does not answer, and Wake-on-LAN cannot switch it off",
		)
	}
	if do.Force {
		return power.IsOn, "", errors.New(
			"Wake-on-LAN cannot cut its current: without --force it is asked to shut down",
		)
	}
	e := api.NodeCommand{ID: "power-" + string(do.Action) + "-" + string(x.boot.ID), Kind: api.PowerOffNode}
	what := "asked to shut down"
	if do.Action == api.PowerCycle {
		e.Kind, what = api.RebootNode, "asked to reboot"
	}
	rep, err := p.commands.Do(ctx, x.boot.ID, e)
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	if err != nil {
		what = ""
	}
	return power.IsOn, what, err
}

// bootAgain makes a running node boot again, through its firmware or without it.
func (p *Controller) bootAgain(
	ctx context.Context,
	x powered,
	do api.PowerDo,
	ask fleet.BootMethod,
	who string,
) (api.PowerDone, error) {
	out := api.PowerDone{Node: x.node.Name, Method: x.to.Method, State: string(power.Unknown), DryRun: do.DryRun}
	if !p.speaks(x) {
		return out, p.tell(
			ctx,
			x,
			do,
			"",
			who,
			errors.New("it does not run, or does not answer: pando node power cycle"),
		)
	}
	method, why, err := p.methods.Choose(ctx, ask, x.node, x.boot)
	if err == nil && ask == fleet.MethodSoftReboot && method != ask {
		err = fmt.Errorf("%w, --method auto: %s", errNotSoft, why)
	}
	if err != nil {
		return out, p.tell(ctx, x, do, "", who, err)
	}
	kind, did := bootmethod.Command(method)
	out.State, out.Did = string(power.IsOn), did
	if ask == fleet.MethodAuto {
		out.Did += " (" + string(method) + ": " + why + ")"
	}
	if do.DryRun {
		return out, nil
	}
	rep, err := p.commands.Do(ctx, x.boot.ID, api.NodeCommand{ID: string(method) + "-" + string(x.boot.ID), Kind: kind})
	if err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return out, p.tell(ctx, x, do, out.Did, who, err)
}

// wake switches a node on if it should be on and has not been seen for long.
func (p *Controller) wake(ctx context.Context, x powered, do api.PowerDo, who string) (api.PowerDone, error) {
	out := api.PowerDone{Node: x.node.Name, Method: x.to.Method, State: string(power.Unknown), DryRun: do.DryRun}
	on, known := p.wanted(x)
	quiet, ever := p.quiet(x)
	seen := power.Seen{Wanted: on || !known, Quiet: quiet, State: power.Unknown}
	if !ever {
		seen.Quiet = power.GivenUp
	}
	if power.Sweep(seen) == "" || x.to.Method == fleet.PowerNone {
		return out, nil
	}
	state, _, err := p.act(ctx, x, api.PowerDo{Action: api.PowerStatus})
	if err != nil {
		return out, p.tell(ctx, x, do, "", who, err)
	}
	seen.State, out.State = state, string(state)
	do.Action = api.PowerAction(power.Sweep(seen))
	if do.DryRun {
		out.Did = string(do.Action)
		return out, nil
	}
	state, out.Did, err = p.act(ctx, x, do)
	out.State = string(state)
	return out, p.tell(ctx, x, do, out.Did, who+", after a power cut", err)
}

// tell records an event that says what was done, or why not. Reading the state records no event.
func (p *Controller) tell(ctx context.Context, x powered, do api.PowerDo, did, who string, err error) error {
	if do.Action == api.PowerStatus || do.DryRun || err == nil && did == "" {
		return refusedPower(x, err)
	}
	e := trace.Event{
		Time:    p.now(),
		Node:    x.node.Name,
		Stage:   trace.Power,
		Kind:    trace.Info,
		Message: did + " by " + string(x.to.Method) + " for " + who,
		Attrs:   map[string]string{"action": string(do.Action), "method": string(x.to.Method), "who": who},
	}
	if err != nil {
		e.Kind, e.Message = trace.Fail, "power "+string(
			do.Action,
		)+" for "+who+": "+httpapi.Clip(
			err.Error(),
			httpapi.MaxMessage,
		)
	}
	if _, failed := p.registry.Append(context.WithoutCancel(ctx), e); failed != nil {
		p.log.Error("power event cannot be recorded", "node", x.node.Name, "err", failed)
	}
	return refusedPower(x, err)
}

// refusedPower returns the API error for a node that could not be switched.
func refusedPower(x powered, err error) error {
	var already *api.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	return api.NewError(api.Conflict, "node "+x.node.Name+": "+err.Error(), "")
}

// errNotSoft means that a soft reboot was requested by name and is not possible.
var errNotSoft = errors.New("its next boot needs another method")
