package site

import (
	"context"
	"net/netip"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

// The commands about the site as a whole: leases and policy.

// LeaseCommand returns the command `lease`.
func LeaseCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("lease", "DHCP addresses given to MACs", leaseList(env), leaseDelete(env))
}

func leaseList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List leases",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			leases, err := c.Leases(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.LeaseList{Leases: leases})
			}
			t := output.NewTable(env.Out, "ADDRESS", "MAC", "HOST", "KIND", "EXPIRES")
			for _, l := range leases {
				t.Row(l.Addr.String(), l.MAC.String(), l.Host, leaseKind(l), output.Time(l.Expires))
			}
			t.Flush()
			return nil
		}),
	})
}

func leaseDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ADDRESS...",
		Short: "Forget who has an address, so that somebody else may get it",
		Long: `Forget who has these addresses, and which were found in use by somebody else. A machine that runs keeps using its address
until its lease ends or it renews it; delete the leases of machines that are gone.`,
		Example: "  pando lease delete 10.0.0.117",
		Args:    cobra.MinimumNArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			addrs := make([]netip.Addr, 0, len(args))
			for _, a := range args {
				addr, err := netip.ParseAddr(a)
				if err != nil {
					return exitcode.Usagef("lease delete: %s is not an address", a)
				}
				addrs = append(addrs, addr)
			}
			for _, a := range addrs {
				if err := c.DeleteLease(ctx, a); err != nil {
					return err
				}
				env.Printf("lease of %s deleted\n", a)
			}
			return nil
		}),
	}
}

func leaseKind(l fleet.Lease) string {
	switch {
	case l.Bad:
		return "in use by somebody else"
	case l.Static:
		return "fixed"
	case !l.Known:
		return "unknown machine"
	}
	return "dynamic"
}

// PolicyCommand returns the command `policy`.
func PolicyCommand(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("policy", "What happens to machines nobody knows", policyShow(env), policySet(env))
}

func policyShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "show",
		Short: "Show the adoption policy and the naming rule",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			p, err := c.Policy(ctx)
			if err != nil {
				return err
			}
			return printPolicy(env, p)
		}),
	})
}

func policySet(env *cmdenv.Env) *cobra.Command {
	var adoption, naming string
	c := &cobra.Command{
		Use:     "set",
		Short:   "Change them; nodes that were adopted stay so",
		Example: `  pando policy set --adoption approve --naming 'pc[001-]'`,
		Args:    cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			p, err := c.Policy(ctx)
			if err != nil {
				return err
			}
			if adoption != "" {
				p.Adoption = fleet.AdoptionPolicy(adoption)
			}
			if naming != "" {
				p.Naming = naming
			}
			if p, err = c.SetPolicy(ctx, p); err != nil {
				return err
			}
			return printPolicy(env, p)
		}),
	}
	c.Flags().StringVar(&adoption, "adoption", "", "open: adopt at once; approve: wait for pando node adopt")
	c.Flags().StringVar(&naming, "naming", "", "names of nodes adopted without one, such as 'pc[001-]'")
	return c
}

func printPolicy(env *cmdenv.Env, p api.Policy) error {
	if env.JSON {
		return output.JSON(env.Out, p)
	}
	output.Fields(env.Out, "adoption", string(p.Adoption), "naming", p.Naming)
	return nil
}
