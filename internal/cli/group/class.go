package group

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/fleet"
	"pando/internal/output"
)

// ClassCommand returns the command `class`.
func ClassCommand(env *cmdenv.Env) *cobra.Command {
	c := cmdenv.Noun("class", "Kinds of hardware, and what the kernel is told on them",
		classList(env), classShow(env), classCreate(env), classSet(env), classDelete(env))
	c.Long = `A hardware class is a name for machines that have something in common: maker, product, CPU, architecture, or a PCI device.
Which nodes are of it follows from what each node reports of itself when it boots, and for its first boot from what its boot
loader tells: vendor, product, architecture and the NIC. A node gets the kernel arguments of every class that it is of, in the
order of their names, after those of its image and its group and before its own.`
	return c
}

func classList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List hardware classes",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			classes, err := c.Classes(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.ClassList{Classes: classes})
			}
			t := output.NewTable(env.Out, "CLASS", "NODES", "KERNEL ARGS")
			for _, class := range classes {
				t.Row(class.Name, strconv.Itoa(len(class.Nodes)), strings.Join(class.KernelArgs, " "))
			}
			t.Flush()
			return nil
		}),
	})
}

func classShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:               "show CLASS",
		Short:             "Show a hardware class, and the nodes that are of it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteClasses,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			class, err := c.Class(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, class)
			}
			m := class.Match
			output.Fields(
				env.Out,
				"class",
				class.Name,
				"vendor",
				strings.Join(m.Vendor, ", "),
				"product",
				strings.Join(m.Product, ", "),
				"CPU",
				strings.Join(m.CPU, ", "),
				"architecture",
				strings.Join(m.Architecture, ", "),
				"PCI",
				strings.Join(m.PCI, ", "),
				"kernel args",
				strings.Join(class.KernelArgs, " "),
				"nodes",
				strings.Join(class.Nodes, " "),
			)
			return nil
		}),
	})
}

// classFlags are the flags that `class create` and `class set` share.
type classFlags struct {
	vendor, product, cpu, architecture, pci []string
	kernelArgs                              []string
	dryRun                                  bool
}

func (f *classFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringArrayVar(&f.vendor, "vendor", nil, "maker of the machine, as SMBIOS has it; * stands for any characters")
	fl.StringArrayVar(&f.product, "product", nil, "product name, as SMBIOS has it")
	fl.StringArrayVar(
		&f.cpu,
		"cpu",
		nil,
		"maker of the CPU: GenuineIntel, AuthenticAMD, or the number of an ARM one, such as 0x41",
	)
	fl.StringArrayVar(&f.architecture, "architecture", nil, "amd64 or arm64")
	fl.StringArrayVar(
		&f.pci,
		"pci",
		nil,
		"PCI device that it has: VENDOR, VENDOR:DEVICE or VENDOR:DEVICE:CLASS, in hex or *",
	)
	fl.StringArrayVar(
		&f.kernelArgs,
		"kernel-arg",
		nil,
		"kernel argument, after the group's and before the node's; one empty: none",
	)
}

// match returns the match of a class; fields whose flags were given are replaced.
func (f *classFlags) match(m fleet.Match, given func(string) bool) fleet.Match {
	for _, field := range []struct {
		flag string
		to   *[]string
		from []string
	}{{"vendor", &m.Vendor, f.vendor}, {"product", &m.Product, f.product}, {"cpu", &m.CPU, f.cpu},
		{"architecture", &m.Architecture, f.architecture}, {"pci", &m.PCI, f.pci}} {
		if given(field.flag) {
			*field.to = cmdenv.NotEmpty(field.from)
		}
	}
	return m
}

func classCreate(env *cmdenv.Env) *cobra.Command {
	var f classFlags
	c := &cobra.Command{
		Use:   "create CLASS",
		Short: "Name a kind of hardware",
		Example: `  pando class create nvidia --pci '10de:*:03*' --kernel-arg nomodeset
  pando class create kiosk --vendor 'Dell*' --product 'Wyse 5070*' --kernel-arg intel_idle.max_cstate=1`,
		Args: cobra.ExactArgs(1),
	}
	f.add(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			made, err := c.CreateClass(
				ctx,
				fleet.Class{Name: args[0], Match: f.match(fleet.Match{}, cmd.Flags().Changed),
					KernelArgs: cmdenv.NotEmpty(f.kernelArgs)},
			)
			if err != nil {
				return err
			}
			env.Printf("class %s created; %d nodes are of it\n", made.Name, len(made.Nodes))
			return nil
		})(cmd, args)
	}
	return c
}

func classSet(env *cmdenv.Env) *cobra.Command {
	var f classFlags
	c := &cobra.Command{
		Use:               "set CLASS",
		Short:             "Change a hardware class; its nodes follow at their next boot",
		Example:           `  pando class set nvidia --kernel-arg nouveau.modeset=0 --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteClasses,
	}
	f.add(c)
	env.WriteFlags(c, &f.dryRun)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		return env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			req, err := f.request(ctx, c, args[0], cmd.Flags().Changed)
			if err != nil {
				return err
			}
			ch, err := c.SetClass(ctx, args[0], req)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, ch)
			}
			cmdenv.PrintChange(env, "class "+args[0], ch.Fields, ch.DryRun, len(ch.Nodes))
			return nil
		})(cmd, args)
	}
	return c
}

// request returns the change that the flags describe. The API replaces the match of a class as a whole, so the request
// contains the present match with the changes by the flags.
func (f *classFlags) request(
	ctx context.Context,
	c *api.Client,
	name string,
	given func(string) bool,
) (api.ClassSet, error) {
	req := api.ClassSet{DryRun: f.dryRun}
	now, err := c.Class(ctx, name)
	if err != nil {
		return req, err
	}
	m := f.match(now.Match, given)
	req.Match = &m
	if given("kernel-arg") {
		args := cmdenv.NotEmpty(f.kernelArgs)
		req.KernelArgs = &args
	}
	return req, nil
}

func classDelete(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:               "delete CLASS",
		Short:             "Forget a hardware class; its nodes boot without its arguments",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteClasses,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := c.DeleteClass(ctx, args[0]); err != nil {
				return err
			}
			env.Printf("class %s deleted\n", args[0])
			return nil
		}),
	}
}
