package rollout

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

// rolloutFlags are the flags of `rollout start`.
type rolloutFlags struct {
	image, canary, wave, most, gate string
	onFail, zone                    string
	windows                         []string
	soak, drainFor                  time.Duration
	drain, undrain, reboot, method  string
	dryRun, watch                   bool
}

func (f *rolloutFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(
		&f.image,
		"image",
		"",
		"version to go to: NAME, NAME:TAG or NAME@sha256:...; a tag is looked up once, now",
	)
	fl.StringVar(
		&f.canary,
		"canary",
		string(fleet.DefaultCanary),
		"nodes of the first wave: how many (2, 5%), or which (pc001,pc017)",
	)
	fl.StringVar(&f.wave, "wave", string(fleet.DefaultWave), "nodes of each later wave")
	fl.StringVar(
		&f.most,
		"max-unavailable",
		string(fleet.DefaultMaxUnavailable),
		"nodes that may be down at a time, for whatever reason",
	)
	fl.StringVar(
		&f.gate,
		"gate",
		"booted,units",
		"what a node must meet: booted, booted:TIMES, units, speed, script:NAME, joined with commas",
	)
	fl.DurationVar(&f.soak, "soak", 0, "observation time from a wave that has passed to the next, such as 30m")
	fl.StringVar(
		&f.onFail,
		"on-fail",
		string(fleet.FailReturn),
		"when a node fails: return to the version before, or halt and wait for an operator",
	)
	fl.StringArrayVar(
		&f.windows,
		"window",
		nil,
		"when nodes may be taken, such as 'Mon-Fri 20:00-06:00'; may be given several times (default always)",
	)
	fl.StringVar(&f.zone, "zone", "", "time zone of the windows, such as Europe/Berlin (default the server's)")
	fl.StringVar(&f.drain, "drain", "", "hook that frees a node of work before it is rebooted")
	fl.DurationVar(
		&f.drainFor,
		"drain-for",
		fleet.DefaultDrainFor,
		"how long that may take; then the node is passed over",
	)
	fl.StringVar(&f.undrain, "undrain", "", "hook that gives it work again")
	fl.StringVar(&f.reboot, "reboot", "", "hook that reboots it (default its agent does)")
	fl.StringVar(
		&f.method,
		"method",
		string(fleet.MethodReboot),
		"how nodes come to the new version: reboot, kexec, soft-reboot, or auto, the shortest that fits; one that "+
			"cannot reboots",
	)
	fl.BoolVar(&f.watch, "watch", false, "watch it until it ends")
}

func (f *rolloutFlags) request(group string) (api.RolloutStart, error) {
	req := api.RolloutStart{Group: strings.TrimPrefix(group, "@"), Image: fleet.Ref(f.image), DryRun: f.dryRun}
	p := fleet.RolloutPlan{
		Canary:         fleet.Portion(f.canary),
		Wave:           fleet.Portion(f.wave),
		MaxUnavailable: fleet.Portion(f.most),
		Soak:           f.soak,
		OnFail: fleet.FailPolicy(
			f.onFail,
		),
		Zone:     f.zone,
		Drain:    f.drain,
		DrainFor: f.drainFor,
		Undrain:  f.undrain,
		Reboot:   f.reboot,
		Method:   fleet.BootMethod(f.method),
	}
	for _, w := range f.windows {
		p.Windows = append(p.Windows, fleet.Window(w))
	}
	var err error
	if p.Gates, err = fleet.ParseGates(f.gate); err != nil {
		return req, exitcode.AsUsage(err)
	}
	if _, e := fleet.ParsePortion(f.canary); e != nil {
		set, err := fleet.ParseSet(f.canary)
		if err != nil || len(set.Names()) == 0 {
			return req, exitcode.Usagef("canary %q: want a number of nodes, a share of them, or their names", f.canary)
		}
		p.Canary, p.CanaryNodes = "", set.Names()
	}
	if err := p.Validate(); err != nil {
		return req, exitcode.AsUsage(err)
	}
	req.Plan = p
	return req, nil
}

func rolloutStart(env *cmdenv.Env) *cobra.Command {
	var f rolloutFlags
	c := &cobra.Command{
		Use:   "start @GROUP",
		Short: "Bring a group to another version, in waves",
		Long: `Bring a group to another version, in waves. The first wave is the canary. The next one begins when every node has met the
gate; a node that does not turns the rollout back: all get the version before again. --dry-run prints the waves.`,
		Example: `  pando rollout start @lab1 --image lab:next --dry-run
  pando rollout start @lab1 --image lab:next --canary 2 --wave 10% --gate booted,units,script:check --max-unavailable 20% --watch`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteGroups,
	}
	f.add(c)
	env.WriteFlags(c, &f.dryRun)
	c.RunE = env.Call(func(ctx context.Context, c *api.Client, args []string) error {
		req, err := f.request(args[0])
		if err != nil {
			return err
		}
		r, err := c.StartRollout(ctx, req)
		switch {
		case err != nil:
			return err
		case f.watch && !f.dryRun:
			return watchRollout(env, ctx, c, r.ID)
		case env.JSON:
			return output.JSON(env.Out, r)
		}
		printWaves(env, r)
		return nil
	})
	return c
}

// printWaves prints which nodes are in which wave.
func printWaves(env *cmdenv.Env, r api.Rollout) {
	waves := make([][]string, r.Waves)
	down := 0
	for _, n := range r.Nodes {
		name := n.Node
		if n.Silent {
			down++
			name += "(down)"
		}
		waves[n.Wave] = append(waves[n.Wave], name)
	}
	_, _, from, _ := r.From.Split()
	_, _, to, _ := r.To.Split()
	env.Printf(
		"group %s: %s -> %s (%s), %d nodes, %s may be down at a time\n",
		r.Group,
		from.Short(),
		to.Short(),
		r.Asked,
		len(r.Nodes),
		r.Plan.MaxUnavailable,
	)
	t := output.NewTable(env.Out, "WAVE", "NODES", "NAMES")
	for i, names := range waves {
		title := output.Count(i + 1)
		if i == 0 {
			title += " canary"
		}
		t.Row(title, output.Count(len(names)), strings.Join(names, " "))
	}
	t.Flush()
	if down > 0 {
		env.Printf("%d nodes are down now: they get the new version when they come back, after the canary\n", down)
	}
	if r.DryRun {
		env.Printf("nothing was done\n")
		return
	}
	env.Printf("rollout %s began; `pando rollout watch %s` follows it\n", r.ID, r.ID)
}
