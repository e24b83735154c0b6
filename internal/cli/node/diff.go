package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/output"
)

func nodeDiff(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "diff [NODES]",
		Short: "Say what a reboot would change of nodes",
		Example: `  pando node diff @lab
  pando node diff pc007 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.CompleteNodes,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			nodes, err := c.DiffNodes(ctx, cmdenv.Arg(args, 0))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, api.NodeDiffList{Nodes: nodes})
			}
			changes := 0
			for _, n := range nodes {
				printNodeDiff(env, n)
				if n.Changes {
					changes++
				}
			}
			env.Printf("a reboot would change %d of %d nodes\n", changes, len(nodes))
			return nil
		}),
	})
}

// shownPackages is how many packages of each kind are listed.
const shownPackages = 20

func printNodeDiff(env *cmdenv.Env, n api.NodeDiff) {
	switch {
	case n.Running == "":
		env.Printf("%s: is not up; its next boot gets %s\n", n.Node, n.Desired.Short())
		return
	case n.Desired == "":
		env.Printf("%s: runs %s; there is nothing that its next boot would get\n", n.Node, n.Running.Short())
		return
	case !n.Changes:
		env.Printf("%s: as it is, %s\n", n.Node, n.Running.Short())
		return
	}
	env.Printf("%s: %s -> %s\n", n.Node, n.Running.Short(), n.Desired.Short())
	if n.Method != "" {
		env.Printf("  method %s: %s\n", n.Method, n.MethodWhy)
	}
	if n.KernelIs != "" {
		env.Printf("  kernel %s -> %s\n", n.KernelWas, n.KernelIs)
	}
	if len(n.ArgsGone)+len(n.ArgsNew) > 0 {
		env.Printf("  command line: %s\n", strings.TrimSpace(signed("-", n.ArgsGone)+" "+signed("+", n.ArgsNew)))
	}
	if files := append(slices.Clone(n.ConfigOld), n.ConfigGone...); len(files) > 0 {
		env.Printf("  config files: %s\n", strings.Join(files, " "))
	}
	if exts := strings.TrimSpace(signed("-", n.ExtensionsGone) + " " + signed("+", n.ExtensionsNew)); exts != "" {
		env.Printf("  extensions: %s\n", exts)
	}
	if n.Drivers {
		env.Printf("  drivers of the initramfs\n")
	}
	if n.Problem != "" {
		env.Printf("  root: another one; %s\n", n.Problem)
	} else if n.Root {
		env.Printf("  root: %s to fetch\n", output.Size(n.RootFetches))
	}
	if text := cmdenv.PackageCounts(n.Packages); text != "" {
		env.Printf("  packages: %s\n", text)
	}
	printPackages(env, n.Packages)
}

// printPackages lists packages: first new and removed ones, then changed ones, then those that were only rebuilt.
func printPackages(env *cmdenv.Env, packages []api.PackageChange) {
	for _, kind := range []api.PackageKind{api.PackageAdded, api.PackageRemoved, api.PackageChanged} {
		shown, left := 0, 0
		for _, p := range packages {
			switch {
			case p.Change != kind:
			case shown == shownPackages:
				left++
			default:
				shown++
				env.Printf("    %s\n", packageText(p))
			}
		}
		if left > 0 {
			env.Printf("    ... and %d more %s\n", left, kind)
		}
	}
	var rebuilt []string
	for _, p := range packages {
		if p.Change == api.PackageRebuilt {
			rebuilt = append(rebuilt, p.Name)
		}
	}
	if len(rebuilt) > 0 {
		env.Printf("    rebuilt: %s\n", output.Few(rebuilt))
	}
}

func signed(sign string, args []string) string {
	var out []string
	for _, s := range args {
		out = append(out, sign+s)
	}
	return strings.Join(out, " ")
}

func packageText(p api.PackageChange) string {
	switch {
	case p.Was == "":
		return fmt.Sprintf("+ %s %s", p.Name, p.Is)
	case p.Is == "":
		return fmt.Sprintf("- %s %s", p.Name, p.Was)
	}
	return fmt.Sprintf("  %s %s -> %s", p.Name, p.Was, p.Is)
}
