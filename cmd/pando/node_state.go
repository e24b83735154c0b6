package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
)

func (a *app) nodeState() *cobra.Command {
	c := noun("state", "What nodes keep across boots", a.stateList(), a.stateSnapshot(), a.stateReset(), a.stateCopy())
	c.GroupID = ""
	c.Long = `What nodes keep across boots.

It is kept where the settings of nodes and groups say (--state-on, --persist). The server takes snapshots of volumes, copies and resets them. State on a
file system or a disk is a directory called as the node, with one for each that is kept.`
	return c
}

func (a *app) stateList() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:               "list [NODES]",
		Short:             "List what nodes keep, and their volumes",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			list, err := c.State(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, api.StateList{Nodes: list})
			}
			t := newTable(a.out, "NODE", "KEPT ON", "DIRECTORIES", "VOLUME", "CHANGED", "SNAPSHOTS")
			for _, s := range list {
				t.row(s.Node, s.Kept, strings.Join(s.Persist, " "), volumeText(s.Volume), a.volumeChanged(s.Volume), snapshotText(s.Volume))
			}
			t.flush()
			return nil
		}),
	})
}

func volumeText(v *api.VolumeState) string {
	if v == nil {
		return ""
	}
	s := used(v.Used, v.Size)
	if v.Attached {
		s += ", attached"
	}
	return s
}

func (a *app) volumeChanged(v *api.VolumeState) string {
	if v == nil {
		return ""
	}
	return ago(a.now(), v.Changed)
}

func snapshotText(v *api.VolumeState) string {
	if v == nil {
		return ""
	}
	var names []string
	for _, s := range v.Snapshots {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func (a *app) stateSnapshot() *cobra.Command {
	return &cobra.Command{
		Use:               "snapshot NODE NAME",
		Short:             "Keep a node's volume as it is now",
		Long:              "Keep a node's volume as it is now, as a power cut would leave it. The node may be on: its writes wait for a moment.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, err := c.SnapshotState(ctx, args[0], api.StateChange{Snapshot: args[1]}); err != nil {
				return err
			}
			a.printf("snapshot %s of %s made\n", args[1], args[0])
			return nil
		}),
	}
}

func (a *app) stateReset() *cobra.Command {
	var snapshot string
	c := &cobra.Command{
		Use:               "reset NODE",
		Short:             "Empty a node's volume, or make it what a snapshot is",
		Long:              "Empty a node's volume, or make it what a snapshot is. The node must be off. Emptied, it begins with what its image has.",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, err := c.ResetState(ctx, args[0], api.StateChange{Snapshot: snapshot}); err != nil {
				return err
			}
			a.printf("the state of %s is reset\n", args[0])
			return nil
		}),
	}
	c.Flags().StringVar(&snapshot, "to", "", "snapshot that it becomes; none: it is emptied, with all its snapshots")
	return c
}

func (a *app) stateCopy() *cobra.Command {
	return &cobra.Command{
		Use:               "copy FROM TO",
		Short:             "Make a node's volume a copy of another node's",
		Long:              "Make the volume of TO a copy of what FROM has now. TO must be off; FROM may be on, and its writes wait meanwhile.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeNodes,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, err := c.CopyState(ctx, args[1], api.StateChange{From: args[0]}); err != nil {
				return err
			}
			a.printf("%s has the state of %s\n", args[1], args[0])
			return nil
		}),
	}
}
