package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
)

func (a *app) storeCommand() *cobra.Command {
	return noun("store", "What versions are kept in: is it whole, what takes how much, what can go",
		a.storeCheck(), a.storeCollect(), a.storeUsage())
}

func (a *app) storeCollect() *cobra.Command {
	var dryRun bool
	keep, grace := 0, time.Duration(0)
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove versions that nothing holds, and objects that nothing names",
		Long: `Remove versions that nothing holds, then objects that no version names, then the work of builds that nobody went on
with, and layers of recipes that no build used for a day. The server does it once a day by itself. A version is held by a tag, by a group or node that wants it, by a
node that runs it or boots it, and for a day after it was written; the newest three of each image stay to go back to.`,
		Example: `  pando store gc --dry-run
  pando store gc --keep 0 --grace 1h`,
		Args: cobra.NoArgs,
	}
	c.Flags().IntVar(&keep, "keep", 3, "newest versions of each image that stay, whether anything holds them or not")
	c.Flags().
		DurationVar(&grace, "grace", 24*time.Hour, "what was written less long ago stays: somebody may be about "+
			"to name it")
	c.RunE = a.call(func(ctx context.Context, client *api.Client, _ []string) error {
		if keep < 0 || grace < 0 {
			return usagef("--keep and --grace are not negative")
		}
		req := api.StoreCollect{DryRun: dryRun}
		if c.Flags().Changed("keep") {
			req.Keep = &keep
		}
		if c.Flags().Changed("grace") {
			req.Grace = &grace
		}
		out, err := client.CollectStore(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			return writeJSON(a.out, out)
		}
		a.printCollected(out)
		return nil
	})
	a.writeFlags(c, &dryRun)
	return c
}

func (a *app) printCollected(c api.StoreCollected) {
	if c.DryRun && len(c.Held) > 0 {
		t := newTable(a.out, "STAYS", "VERSION", "HELD BY")
		for _, h := range c.Held {
			t.row(h.Image, h.Version.Short(), holders(h.By))
		}
		t.flush()
	}
	for _, v := range c.Versions {
		a.printf("version %s of %s: nothing holds it\n", v.Version.Short(), orNone(v.Image))
	}
	for _, w := range c.Work {
		a.printf("work of a build, %s: %s, last used %s\n", w.Name, size(w.Bytes), ago(a.now(), w.Used))
	}
	done := "removed"
	if c.DryRun {
		done = "would be removed"
	}
	a.printf("%d versions and %d objects of %s %s\n", len(c.Versions), c.Objects, size(c.Bytes), done)
	if c.Fresh > 0 {
		a.printf("%d objects of %s that nothing names are too young to go\n", c.Fresh, size(c.FreshBytes))
	}
}

// orNone is the name of an image, for a version that has one.
func orNone(image string) string {
	if image == "" {
		return "no image"
	}
	return image
}

func (a *app) storeUsage() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "usage",
		Short: "Show what takes how much: by image and version, shared and own",
		Long: `Show what takes how much. OWN is what no other version names: what its removal frees. NEW is what no older version of
the image names: what it cost to keep.`,
		Args: cobra.NoArgs,
		RunE: a.call(func(ctx context.Context, c *api.Client, _ []string) error {
			u, err := c.StoreUsage(ctx)
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, u)
			}
			a.printUsage(u)
			return nil
		}),
	})
}

func (a *app) printUsage(u api.StoreUsage) {
	t := newTable(a.out, "IMAGE", "VERSION", "TAGS", "ALL", "SHARED", "OWN", "NEW")
	for _, i := range u.Images {
		for _, v := range i.Versions {
			t.row(
				orNone(i.Image),
				v.Version.Short(),
				strings.Join(v.Tags, " "),
				size(v.Total),
				size(v.Shared),
				size(v.Own),
				size(v.New),
			)
		}
	}
	t.flush()
	a.printf("\n")
	var pairs []string
	for _, i := range u.Images {
		pairs = append(
			pairs,
			orNone(i.Image),
			fmt.Sprintf(
				"%s in %s versions, %s of it in no other image",
				size(i.Total),
				strconv.Itoa(len(i.Versions)),
				size(i.Bytes),
			),
		)
	}
	pairs = append(
		pairs,
		"several images",
		sizeOf(u.Shared),
		"boot packs",
		sizeOf(u.Packs),
		"named by nothing",
		sizeOf(u.Unnamed),
		"store",
		fmt.Sprintf(
			"%s in %d objects; %s if each version were kept by itself",
			size(u.Bytes),
			u.Objects,
			size(u.Whole),
		),
		"unfinished builds",
		sizeOf(u.Work),
		"layers of recipes",
		sizeOf(u.Layers),
	)
	fields(a.out, pairs...)
	for _, b := range u.Broken {
		a.printf("not counted: %s\n", b)
	}
}
