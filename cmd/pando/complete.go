package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completionTime is how long a shell's completion may wait for the server: longer feels like a hang.
const completionTime = 2 * time.Second

// completeNodes completes a node's name; a node set is left to the person.
func (a *app) completeNodes(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := a.client()
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

func (a *app) completeGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := a.client()
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

func (a *app) completeClasses(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := a.client()
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

// completeImages completes image names and their tags, NAME:TAG.
func (a *app) completeImages(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, args, func(ctx context.Context) (names []string, err error) {
		c, err := a.client()
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

// complete asks the server for names of the first argument; without a server there is nothing to complete.
func (a *app) complete(
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
