package cmdenv

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completionTime is how long a shell's completion may wait for the server.
const completionTime = 2 * time.Second

// CompleteNodes completes the name of a node. It does not complete node sets.
func (env *Env) CompleteNodes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return env.Complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := env.Client()
		if err != nil {
			return nil, err
		}
		nodes, err := c.Nodes(ctx, "")
		for _, n := range nodes {
			names = append(names, n.Name)
		}
		return names, err
	})
}

// CompleteGroups completes the name of a group.
func (env *Env) CompleteGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return env.Complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := env.Client()
		if err != nil {
			return nil, err
		}
		groups, err := c.Groups(ctx)
		for _, g := range groups {
			names = append(names, g.Name)
		}
		return names, err
	})
}

// CompleteClasses completes the name of a hardware class.
func (env *Env) CompleteClasses(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return env.Complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := env.Client()
		if err != nil {
			return nil, err
		}
		classes, err := c.Classes(ctx)
		for _, class := range classes {
			names = append(names, class.Name)
		}
		return names, err
	})
}

// CompleteImages completes image names and their tags, NAME:TAG.
func (env *Env) CompleteImages(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return env.Complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := env.Client()
		if err != nil {
			return nil, err
		}
		images, err := c.Images(ctx)
		for _, i := range images {
			names = append(names, i.Name)
			for tag := range i.Tags {
				names = append(names, i.Name+":"+tag)
			}
		}
		return names, err
	})
}

// Complete completes the first argument with names from the server. Without a server it completes nothing.
func (env *Env) Complete(
	cmd *cobra.Command,
	args []string,
	ask func(context.Context) ([]string, error),
) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	names, err := ask(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
