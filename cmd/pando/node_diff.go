package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
)

func (a *app) nodeDiff() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "diff [NODES]",
		Short: "Say what a reboot would change of nodes",
		Example: `  pando node diff @lab
  pando node diff pc007 --json`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			nodes, err := c.DiffNodes(ctx, arg(args, 0))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.NodeDiffList{Nodes: nodes})
			}
			changes := 0
			for _, n := range nodes {
				a.printNodeDiff(n)
				if n.Changes {
					changes++
				}
			}
			a.printf("a reboot would change %d of %d nodes\n", changes, len(nodes))
			return nil
		}),
	})
}

// shownPackages is how many packages of a node are told by name.
const shownPackages = 20

func (a *app) printNodeDiff(n api.NodeDiff) {
	switch {
	case n.Running == "":
		a.printf("%s: is not up; its next boot gets %s\n", n.Node, n.Desired.Short())
		return
	case n.Desired == "":
		a.printf("%s: runs %s; there is nothing that its next boot would get\n", n.Node, n.Running.Short())
		return
	case !n.Changes:
		a.printf("%s: as it is, %s\n", n.Node, n.Running.Short())
		return
	}
	a.printf("%s: %s -> %s\n", n.Node, n.Running.Short(), n.Desired.Short())
	if n.Method != "" {
		a.printf("  method %s: %s\n", n.Method, n.MethodWhy)
	}
	if n.KernelIs != "" {
		a.printf("  kernel %s -> %s\n", n.KernelWas, n.KernelIs)
	}
	if len(n.ArgsGone)+len(n.ArgsNew) > 0 {
		a.printf("  command line: %s\n", strings.TrimSpace(signed("-", n.ArgsGone)+" "+signed("+", n.ArgsNew)))
	}
	if files := append(slices.Clone(n.ConfigOld), n.ConfigGone...); len(files) > 0 {
		a.printf("  config files: %s\n", strings.Join(files, " "))
	}
	if exts := strings.TrimSpace(signed("-", n.ExtensionsGone) + " " + signed("+", n.ExtensionsNew)); exts != "" {
		a.printf("  extensions: %s\n", exts)
	}
	if n.Drivers {
		a.printf("  drivers of the initramfs\n")
	}
	if n.Problem != "" {
		a.printf("  root: another one; %s\n", n.Problem)
	} else if n.Root {
		a.printf("  root: %s to fetch, %d packages differ\n", size(n.RootFetches), len(n.Packages))
	}
	for i, p := range n.Packages {
		if i == shownPackages {
			a.printf("    ... and %d more\n", len(n.Packages)-i)
			break
		}
		a.printf("    %s\n", packageText(p))
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
	case p.Was == p.Is:
		return fmt.Sprintf("  %s %s: files changed", p.Name, p.Is)
	}
	return fmt.Sprintf("  %s %s -> %s", p.Name, p.Was, p.Is)
}
