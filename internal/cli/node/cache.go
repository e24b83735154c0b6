package node

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/terminal"
)

// nodeCacheFlags are the flags of `node cache`.
type nodeCacheFlags struct {
	device, erase    string
	dryRun, bootable bool
}

func nodeCache(env *cmdenv.Env) *cobra.Command {
	var f nodeCacheFlags
	c := &cobra.Command{
		Use:   "cache NODE",
		Short: "List a running node's disks, or make one of them its cache",
		Long: `List a running node's disks, or make one of them its cache.

The node answers when it speaks next, within about a minute. A disk that becomes the cache loses all that is on it; one
that is mounted or otherwise in use is refused. It is used from the next boot on, if the node's group says so:
pando group set GROUP --cache disk. With --bootable it is a boot medium as well (see pando media), whose kernel and initramfs follow
what the node runs; with --offline the group's nodes boot from it when no server answers.`,
		Example: `  pando node cache pc001
  pando node cache pc001 --device /dev/sdb
  pando node cache pc001 --device /dev/sdb --erase /dev/sdb`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
	}
	c.RunE = env.Call(func(ctx context.Context, c *api.Client, args []string) error {
		return runNodeCache(env, ctx, c, args[0], f)
	})
	fl := c.Flags()
	fl.StringVar(&f.device, "device", "", "disk or partition to prepare, as the list names it; none: list only")
	fl.StringVar(&f.erase, "erase", "", "the same device once more, instead of typing it when asked")
	fl.BoolVar(
		&f.bootable,
		"bootable",
		false,
		"put a boot loader, kernel and initramfs there too, so that the node starts from this disk; a whole disk only",
	)
	env.WriteFlags(c, &f.dryRun)
	return c
}

// check refuses flags that exclude each other.
func (f nodeCacheFlags) check(node string) error {
	var alone string // a given flag that needs --device, which was not given
	switch {
	case f.device != "" && f.erase != "" && f.erase != f.device:
		return exitcode.Usagef("--device %s, but --erase %s: nothing was done", f.device, f.erase)
	case f.device != "":
		return nil
	case f.erase != "":
		alone = "--erase " + f.erase
	case f.bootable:
		alone = "--bootable"
	case f.dryRun:
		alone = "--dry-run"
	default:
		return nil
	}
	return exitcode.WithHint(
		exitcode.Usagef("%s without --device", alone),
		"`pando node cache "+node+"` lists the devices",
	)
}

func runNodeCache(env *cmdenv.Env, ctx context.Context, c *api.Client, node string, f nodeCacheFlags) error {
	if err := f.check(node); err != nil {
		return err
	}
	output.Fprintf(env.Err, "waiting for %s, which speaks about once a minute\n", node)
	disks, err := c.NodeDisks(ctx, node)
	if err != nil {
		return err
	}
	if f.device == "" {
		if env.JSON {
			return output.JSON(env.Out, api.DiskList{Disks: disks})
		}
		printDisks(env, disks)
		return nil
	}
	if !f.dryRun && f.erase == "" {
		printDisks(env, disks)
		if err := confirmErase(env, node, f.device, disks); err != nil {
			return err
		}
	}
	if disks, err = c.PrepareNodeCache(ctx, node,
		api.NodeCache{Device: f.device, Erase: f.device, DryRun: f.dryRun, Bootable: f.bootable}); err != nil {
		return err
	}
	switch {
	case env.JSON:
		return output.JSON(env.Out, api.DiskList{Disks: disks})
	case f.dryRun:
		env.Printf("%s of %s would be made its cache; nothing was written\n", f.device, node)
	default:
		env.Printf("%s of %s is prepared as its cache\n", f.device, node)
		sayCacheUse(env, ctx, c, node)
	}
	return nil
}

// sayCacheUse prints whether the node's settings make it use the prepared cache and, if not, which command does.
func sayCacheUse(env *cmdenv.Env, ctx context.Context, c *api.Client, name string) {
	n, err := c.Node(ctx, name)
	if err != nil { // the disk is prepared, which was the request
		env.Printf(
			"it is used from the next boot on if the node's settings say so (%v): `pando node show %s` shows them\n",
			err,
			name,
		)
		return
	}
	env.Printf("%s\n", cacheUse(n))
}

func cacheUse(n api.Node) string {
	for _, v := range n.Effective {
		switch {
		case v.Setting != fleet.SettingCache || v.Value == string(fleet.CacheDisk):
		case n.Cache != nil:
			return fmt.Sprintf(
				"the cache is NOT used: %s has cache %s of its own; `pando node set %s --cache disk` has it used "+
					"from the next boot on",
				n.Name,
				v.Value,
				n.Name,
			)
		default:
			return fmt.Sprintf(
				"the cache is NOT used: nodes of group %s have cache %s; `pando group set %s --cache disk` has it "+
					"used from the next boot on",
				n.Group,
				v.Value,
				n.Group,
			)
		}
	}
	return "the cache is used from the next boot on"
}

// printDisks prints disks, each followed by its partitions.
func printDisks(env *cmdenv.Env, disks []api.Disk) {
	t := output.NewTable(env.Out, "DEVICE", "SIZE", "MODEL", "HAS", "IN USE")
	for _, d := range disks {
		name := d.Name
		if d.Of != "" {
			name = "  " + name
		}
		used := d.Used
		if d.ReadOnly {
			used = strings.TrimPrefix(used+"; read-only", "; ")
		}
		t.Row(name, output.Size(d.Size), d.Model, d.Has, used)
	}
	t.Flush()
}

// confirmErase asks the user to type the name of the device.
func confirmErase(env *cmdenv.Env, node, device string, disks []api.Disk) error {
	var what string
	for _, d := range disks {
		if d.Name == device {
			what = strings.Join(strings.Fields(output.Size(d.Size)+" "+d.Model+" "+d.Has), " ")
		}
	}
	if what == "" {
		return exitcode.WithHint(exitcode.Usagef("%s has no disk %s", node, device), "the list above names them")
	}
	if env.JSON || terminal.Of(env.In) == nil {
		return exitcode.WithHint(
			exitcode.Usagef("all that is on %s of %s would be lost", device, node),
			"confirm it with --erase "+device,
		)
	}
	output.Fprintf(env.Err, "All that is on %s (%s) of %s will be lost. Type %s to go on: ", device, what, node, device)
	line, err := bufio.NewReader(env.In).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != device {
		return exitcode.Usagef("%s was not typed: nothing was done", device)
	}
	return nil
}
