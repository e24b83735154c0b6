package node

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/settingflags"
)

func nodeCreate(env *cmdenv.Env) *cobra.Command {
	var n api.NodeCreate
	var macs, pairs []string
	var image string
	var settings settingflags.Flags
	c := &cobra.Command{
		Use:   "create NODE",
		Short: "Record a node before it is seen, by its MAC address or its serial number",
		Example: `  pando node create pc001 --mac 52:54:00:12:34:56 --group lab --address 10.0.0.11
  pando node create pc002 --serial CZC1234567 --group lab`,
		Args: cobra.ExactArgs(1),
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) (err error) {
			n.Name, n.Version = args[0], fleet.Ref(image)
			if n.Settings, err = settings.Settings(); err != nil {
				return err
			}
			if n.MACs, err = parseMACs(macs); err != nil {
				return err
			}
			if n.Labels, err = parseLabels(pairs); err != nil {
				return err
			}
			made, err := c.CreateNode(ctx, n)
			if err != nil {
				return err
			}
			env.Printf("node %s created in group %s\n", made.Name, made.Group)
			return nil
		})(cmd, args)
	}
	f := c.Flags()
	f.StringVar(
		&n.Serial,
		"serial",
		"",
		"serial number of the machine, as its firmware tells it: the machine that says it is the node; with the "+
			"policy approve when it is adopted",
	)
	f.StringArrayVar(&macs, "mac", nil, "MAC address, once per NIC")
	f.StringVar(&n.Group, "group", "", "group (default \"default\")")
	f.StringArrayVar(&pairs, "label", nil, "label KEY=VALUE")
	f.StringVar(&n.Address, "address", "", "fixed IPv4 address")
	f.StringVar(&image, "image", "", "version of this node instead of its group's: NAME, NAME:TAG or NAME@VERSION; "+
		"a tag is looked up once, now")
	f.BoolVar(&n.Follow, "follow", false, "follow the tag of --image: each boot gets what it names then")
	f.StringArrayVar(&n.KernelArgs, "kernel-arg", nil, "kernel argument, after the group's")
	settings.Add(c)
	return c
}

func parseMACs(texts []string) ([]fleet.MAC, error) {
	var macs []fleet.MAC
	for _, t := range texts {
		m, err := fleet.ParseMAC(t)
		if err != nil {
			return nil, exitcode.AsUsage(err)
		}
		macs = append(macs, m)
	}
	return macs, nil
}

func parseLabels(pairs []string) (map[string]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, exitcode.Usagef("label %q is not KEY=VALUE", p)
		}
		m[k] = v
	}
	return m, nil
}

// nodeSetFlags are the flags of `node set` as they are typed.
type nodeSetFlags struct {
	name, group, address, image, serial string
	labels, kernelArgs                  []string
	addMACs, removeMACs, inherit        []string
	follow, dryRun                      bool
	settingflags.Flags
}

func nodeSet(env *cmdenv.Env) *cobra.Command {
	var f nodeSetFlags
	c := &cobra.Command{
		Use:   "set NODES",
		Short: "Change nodes: all that are named, or none",
		Example: `  pando node set 'pc[001-030]' --group lab --dry-run
  pando node set pc007 --image lab
  pando node set 'room=b12!@kiosks' --peers off
  pando node set pc007 --inherit peers,cache
  pando node set @lab --label room=B12 --label old=`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			req, err := f.request(cmd, args[0])
			if err != nil {
				return err
			}
			ch, err := c.SetNodes(ctx, req)
			if err != nil {
				return err
			}
			return cmdenv.PrintChanges(env, "changed", ch)
		})(cmd, args)
	}
	fl := c.Flags()
	fl.StringVar(&f.name, "name", "", "new name, of one node")
	fl.StringVar(&f.group, "group", "", "move to this group")
	fl.StringArrayVar(&f.labels, "label", nil, "label KEY=VALUE; KEY= removes it")
	fl.StringVar(&f.address, "address", "", "fixed IPv4 address, of one node; empty: from the pool")
	fl.StringVar(&f.image, "image", "", "version of these nodes instead of their group's: NAME, NAME:TAG or "+
		"NAME@VERSION; a tag is looked up once, now; empty: the group's")
	fl.BoolVar(&f.follow, "follow", false, "follow the tag of --image: each boot gets what it names then")
	fl.StringArrayVar(
		&f.kernelArgs,
		"kernel-arg",
		nil,
		"kernel arguments, replacing those the nodes have; one empty: none",
	)
	fl.StringArrayVar(&f.addMACs, "add-mac", nil, "MAC address that this node has too")
	fl.StringArrayVar(&f.removeMACs, "remove-mac", nil, "MAC address that this node does not have")
	fl.StringVar(&f.serial, "serial", "", "serial number of one node")
	f.Add(c)
	fl.StringSliceVar(
		&f.inherit,
		"inherit",
		nil,
		"settings that the nodes have as their group again, such as peers,cache-size",
	)
	env.WriteFlags(c, &f.dryRun)
	return c
}

// request converts the given flags to a request.
func (f *nodeSetFlags) request(c *cobra.Command, nodes string) (api.NodeSet, error) {
	req := api.NodeSet{
		Select:     nodes,
		DryRun:     f.dryRun,
		Name:       cmdenv.Given(c, "name", f.name),
		Group:      cmdenv.Given(c, "group", f.group),
		Address:    cmdenv.Given(c, "address", f.address),
		Version:    cmdenv.Given(c, "image", fleet.Ref(f.image)),
		Follow:     f.follow,
		KernelArgs: cmdenv.Given(c, "kernel-arg", cmdenv.NotEmpty(f.kernelArgs)),
		Serial:     cmdenv.Given(c, "serial", f.serial),
	}
	for _, name := range f.inherit {
		req.Inherit = append(req.Inherit, strings.ReplaceAll(name, "-", "_"))
	}
	var err error
	if req.Settings, err = f.Settings(); err != nil {
		return req, err
	}
	pairs, err := parseLabels(f.labels)
	if err != nil {
		return req, err
	}
	for k, v := range pairs {
		if req.Labels == nil {
			req.Labels = map[string]*string{}
		}
		if req.Labels[k] = nil; v != "" {
			req.Labels[k] = &v
		}
	}
	if req.AddMACs, err = parseMACs(f.addMACs); err != nil {
		return req, err
	}
	req.RemoveMACs, err = parseMACs(f.removeMACs)
	return req, err
}

func nodeDelete(env *cmdenv.Env) *cobra.Command {
	var dryRun bool
	c := &cobra.Command{
		Use:               "delete NODES",
		Short:             "Forget nodes; one that is on goes on running",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.DeleteNodes(ctx, args[0], dryRun)
			if err != nil {
				return err
			}
			return cmdenv.PrintChanges(env, "deleted", ch)
		}),
	}
	env.WriteFlags(c, &dryRun)
	return c
}

func nodeAdopt(env *cmdenv.Env) *cobra.Command {
	var req api.NodeAdopt
	var group string
	c := &cobra.Command{
		Use:   "adopt NODES",
		Short: "Accept nodes that were discovered, by name or MAC",
		Example: `  pando node adopt 52:54:00:12:34:56 --name pc001 --group lab
  pando node adopt @discovered --name 'pc[001-]'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			req.Select = args[0]
			if group != "" {
				req.Group = &group
			}
			ch, err := c.AdoptNodes(ctx, req)
			if err != nil {
				return err
			}
			return cmdenv.PrintChanges(env, "adopted", ch)
		}),
	}
	c.Flags().StringVar(&req.Name, "name", "", "new name of one node, or a naming rule such as 'pc[001-]'")
	c.Flags().StringVar(&group, "group", "", "group to join (default \"default\")")
	env.WriteFlags(c, &req.DryRun)
	return c
}
