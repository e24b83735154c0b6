package doctor

import (
	"context"

	"github.com/spf13/cobra"

	"pando/internal/bootloader"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/hostcheck"
	"pando/internal/output"
)

// Command returns the command `doctor`.
func Command(env *cmdenv.Env) *cobra.Command {
	o := hostcheck.Options{Proc: "/proc"}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find what keeps nodes from booting, and say how to fix it",
		Long: `Look at this machine for what goes wrong in practice: the interface, ports that others hold, a second
DHCP server, firewall rules, boot files, tools, disk space, the clock, and NICs of nodes that the image's kernel
has no module for. Exit code 0: fine; 7: something keeps nodes from booting; 8: warnings only.`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Data = env.Data
			return doctor(env, cmd.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Interface, "interface", "", "network interface that nodes are on")
	f.StringVar(&o.BootFiles, "boot-files", "", "directory of boot loaders (default: beside pando, and "+
		bootloader.PackageDir+")")
	f.StringVar(&o.Agent, "agent", "", "the pando-init binary (default: found beside pando)")
	f.BoolVar(&o.Quick, "quick", false, "leave out what takes seconds")
	return env.ReadFlags(c)
}

// report is what `doctor --json` prints.
type report struct {
	Findings []hostcheck.Finding `json:"findings"`
	Worst    hostcheck.Level     `json:"worst"`
}

func doctor(env *cmdenv.Env, ctx context.Context, o hostcheck.Options) error {
	r := report{Findings: []hostcheck.Finding{}, Worst: hostcheck.Fine}
	for _, k := range hostcheck.Checks(env) {
		for _, f := range k.Look(ctx, o) {
			r.add(f)
			if !env.JSON {
				hostcheck.Print(env, f)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if env.JSON {
		if err := output.JSON(env.Out, r); err != nil {
			return err
		}
	}
	switch r.Worst {
	case hostcheck.Problem:
		return exitcode.Silent(exitcode.Problem)
	case hostcheck.Warning:
		return exitcode.Silent(exitcode.Warning)
	}
	return nil
}

func (r *report) add(f hostcheck.Finding) {
	r.Findings = append(r.Findings, f)
	if hostcheck.Rank(f.Level) > hostcheck.Rank(r.Worst) {
		r.Worst = f.Level
	}
}
