package main

import (
	"context"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

// The nouns of the site as a whole: its leases, keys and policy.

func (a *app) leaseCommand() *cobra.Command {
	return noun("lease", "DHCP addresses given to MACs", a.readFlags(&cobra.Command{
		Use:   "list",
		Short: "List leases",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			leases, err := c.Leases(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.LeaseList{Leases: leases})
			}
			t := newTable(a.out, "ADDRESS", "MAC", "HOST", "KIND", "EXPIRES")
			for _, l := range leases {
				t.row(l.Addr.String(), l.MAC.String(), l.Host, leaseKind(l), clock(l.Expires))
			}
			t.flush()
			return nil
		}),
	}))
}

func leaseKind(l fleet.Lease) string {
	switch {
	case l.Bad:
		return "in use by somebody else"
	case l.Static:
		return "fixed"
	}
	return "dynamic"
}

func (a *app) policyCommand() *cobra.Command {
	return noun("policy", "What happens to machines nobody knows", a.policyShow(), a.policySet())
}

func (a *app) policyShow() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "show",
		Short: "Show the adoption policy and the naming rule",
		Args:  cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			p, err := c.Policy(ctx)
			if err != nil {
				return err
			}
			return a.printPolicy(p)
		}),
	})
}

func (a *app) policySet() *cobra.Command {
	var adoption, naming string
	c := &cobra.Command{
		Use:     "set",
		Short:   "Change them; nodes that were adopted stay so",
		Example: `  pando policy set --adoption approve --naming 'pc[001-]'`,
		Args:    cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
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
			return a.printPolicy(p)
		}),
	}
	c.Flags().StringVar(&adoption, "adoption", "", "open: adopt at once; approve: wait for `pando node adopt`")
	c.Flags().StringVar(&naming, "naming", "", "names of nodes adopted without one, such as 'pc[001-]'")
	return c
}

func (a *app) printPolicy(p api.Policy) error {
	if a.json {
		return writeJSON(a.out, p)
	}
	fields(a.out, "adoption", string(p.Adoption), "naming", p.Naming)
	return nil
}
