package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/fleetfile"
	"pando/internal/output"
	"pando/internal/terminal"
)

// applyFlags are the flags of `apply` and `node import`.
type applyFlags struct {
	file, group        string
	prune, dryRun, yes bool
}

// Command returns the command `apply`.
func Command(env *cmdenv.Env) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Make the fleet what a file says: policy, classes, groups and nodes",
		Long: `Make the fleet what a file says: policy, classes, groups and nodes (docs/fleet.md has the format).

What differs is printed first; you are asked before anything is done; where there is no terminal, --yes has to be given. What the file names is afterwards as the file says,
all of it or, when something cannot be, nothing. What it does not name stays, unless --prune is given and the file owns it.`,
		Example: `  pando export > fleet.yaml
  pando apply -f fleet.yaml --dry-run
  pando apply -f fleet.yaml --prune`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			text, err := env.ReadFile(f.file)
			if err != nil {
				return err
			}
			file, err := fleetfile.Parse(f.file, text)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if err := readContent(&file, filepath.Dir(f.file)); err != nil {
				return err
			}
			return applyFile(env, ctx, c, file, f)
		}),
	}
	fl := c.Flags()
	fl.StringVarP(&f.file, "file", "f", "", "fleet file in YAML; -: standard input")
	fl.BoolVar(&f.prune, "prune", false, "delete what the file owns and does not name")
	addApplyFlags(env, c, &f)
	return c
}

// readContent reads the files that the fleet file names as content of config files.
func readContent(file *fleetfile.File, dir string) error {
	for i, name := range file.From {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return exitcode.AsUsage(fmt.Errorf("config file %s of %s: "+
				"%w", file.Config[i].Path, file.Config[i].For, err))
		}
		file.Config[i].Content = b
	}
	return nil
}

func addApplyFlags(env *cmdenv.Env, c *cobra.Command, f *applyFlags) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	env.WriteFlags(c, &f.dryRun)
}

// applyFile shows what would change, asks for confirmation, and then applies exactly that.
func applyFile(env *cmdenv.Env, ctx context.Context, c *api.Client, file fleetfile.File, f applyFlags) error {
	req := api.Apply{Declaration: file.Declaration, Prune: f.prune, DryRun: true}
	plan, err := c.ApplyFleet(ctx, req)
	if err != nil {
		return located(err, f.file, file.Lines)
	}
	if f.dryRun || len(plan.Steps) == 0 {
		return printApplied(env, plan)
	}
	if !env.JSON {
		printSteps(env, plan)
	}
	if err := confirm(env, len(plan.Steps), f.yes); err != nil {
		return err
	}
	req.DryRun, req.Plan = false, plan.Plan
	done, err := c.ApplyFleet(ctx, req)
	if err != nil {
		return located(err, f.file, file.Lines)
	}
	if env.JSON {
		return output.JSON(env.Out, done)
	}
	env.Printf("%s\n", countSteps(done.Steps, ""))
	return nil
}

// confirm asks for confirmation on a terminal. Without a terminal --yes is required.
func confirm(env *cmdenv.Env, n int, yes bool) error {
	if yes {
		return nil
	}
	if terminal.Of(env.In) == nil {
		return exitcode.WithHint(
			exitcode.Usagef("nothing was done: there is no terminal to ask at"),
			fmt.Sprintf("--yes does these %d things without asking", n),
		)
	}
	fmt.Fprintf(env.Err, "Do these %d things? [y/N] ", n)
	line, err := bufio.NewReader(env.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if word := strings.ToLower(strings.TrimSpace(line)); word != "y" && word != "yes" {
		return errors.New("nothing was done")
	}
	return nil
}

// located adds file and line to an error about an item of the declaration.
func located(err error, file string, lines map[string]int) error {
	var refused *api.Error
	if !errors.As(err, &refused) || lines[refused.Item] == 0 {
		return err
	}
	at := *refused
	at.Message = fmt.Sprintf("%s:%d: %s", file, lines[refused.Item], refused.Message)
	return &at
}

func printApplied(env *cmdenv.Env, plan api.Applied) error {
	if env.JSON {
		return output.JSON(env.Out, plan)
	}
	printSteps(env, plan)
	if len(plan.Steps) == 0 {
		env.Printf("the fleet is as declared\n")
		return nil
	}
	env.Printf("%s; nothing was done\n", countSteps(plan.Steps, "would be "))
	return nil
}

// printSteps prints a line for each step and each note. Nodes that change in the same way share a line.
func printSteps(env *cmdenv.Env, plan api.Applied) {
	signs := map[api.Action]string{api.Creates: "+", api.Alters: "~", api.Deletes: "-"}
	names := map[string][]string{}
	var order []string
	for _, s := range plan.Steps {
		head, tail := signs[s.Action]+" "+s.Kind, strings.Join(s.Fields, "; ")
		if s.Kind != "node" {
			env.Printf("%s\n", strings.TrimSuffix(strings.TrimSpace(head+" "+s.Name)+": "+tail, ": "))
			continue
		}
		key := head + "\n" + tail
		if names[key] == nil {
			order = append(order, key)
		}
		names[key] = append(names[key], s.Name)
	}
	for _, key := range order {
		head, tail, _ := strings.Cut(key, "\n")
		env.Printf("%s\n", strings.TrimSuffix(head+" "+fleet.Fold(names[key])+": "+tail, ": "))
	}
	for _, n := range plan.Notes {
		env.Printf("= %s\n", n)
	}
}

// countSteps returns "2 created, 1 changed, 0 deleted".
func countSteps(steps []api.ApplyStep, before string) string {
	n := map[api.Action]int{}
	for _, s := range steps {
		n[s.Action]++
	}
	return fmt.Sprintf(
		"%d %[2]screated, %[3]d %[2]schanged, %[4]d %[2]sdeleted",
		n[api.Creates],
		before,
		n[api.Alters],
		n[api.Deletes],
	)
}

// ExportCommand returns the command `export`.
func ExportCommand(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:     "export",
		Short:   "Print the fleet as a file that `pando apply` takes",
		Example: `  pando export > fleet.yaml`,
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			d, err := c.ExportFleet(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, d)
			}
			text, err := fleetfile.Encode(d)
			if err != nil {
				return err
			}
			_, err = terminal.Content(env.Out).Write(text)
			return err
		}),
	})
}

// giveGroup puts new nodes of a table into a group, unless the table names a group for them. It returns the nodes that
// exist already in other groups; they stay there, because an operator may have moved them.
func giveGroup(nodes []api.NodeDeclare, known []api.Node, group string) (stay []string) {
	in := make(map[string]string, len(known))
	for _, n := range known {
		if n.State == fleet.Adopted {
			in[n.Name] = n.Group
		}
	}
	for i := range nodes {
		d := &nodes[i]
		has, there := in[d.Name]
		switch {
		case d.Group != "":
		case !there:
			d.Group, d.Only = group, append(d.Only, "group")
		case has != group:
			stay = append(stay, d.Name)
		}
	}
	return stay
}

// ImportCommand returns the command `node import`.
func ImportCommand(env *cmdenv.Env) *cobra.Command {
	var f applyFlags
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Make or change the nodes of a table: CSV, YAML, or hosts of ethers, dnsmasq or ISC's dhcpd",
		Long: `Make or change the nodes of a table: CSV, a list in YAML, or the hosts of /etc/ethers, dnsmasq (dhcp-host) or ISC's dhcpd
(docs/fleet.md).

The first line of CSV names the columns, in any order: name, mac, serial, group, labels, address, image, kernel_args, and label:KEY for
one label. Cells are separated by commas, semicolons or tabs. Of a node that is there already only what the columns are is changed, and
no node is deleted. A machine that was seen, and waits, becomes the node that has its MAC. What differs is printed first.`,
		Example: `  pando node import room.csv --group lab --dry-run
  pando node import room.yaml
  pando node import /etc/dhcp/dhcpd.conf --group lab --yes`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			f.file = args[0]
			text, err := env.ReadFile(f.file)
			if err != nil {
				return err
			}
			file, err := fleetfile.ParseTable(f.file, text)
			if err != nil {
				return exitcode.AsUsage(err)
			}
			if file.Note != "" {
				output.Fprintf(env.Err, "%s\n", file.Note)
			}
			if f.group != "" {
				known, err := c.Nodes(ctx, "")
				if err != nil {
					return err
				}
				if stay := giveGroup(file.Nodes, known, f.group); len(stay) > 0 {
					fmt.Fprintf(env.Err, "note: %s: --group is for new nodes, those that exist keep their group; "+
						"to move them: pando node set '%[1]s' --group %s\n", fleet.Fold(stay), f.group)
				}
			}
			return applyFile(env, ctx, c, file, f)
		}),
	}
	c.Flags().StringVar(&f.group, "group", "", "group of new nodes for which the table has none")
	addApplyFlags(env, c, &f)
	return c
}
