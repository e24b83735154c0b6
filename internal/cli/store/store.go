package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// Command returns the command `store`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun("store", "What versions are kept in: is it whole, what takes how much, what can go",
		storeCheck(env), storeCollect(env), storeUsage(env))
}

func storeCollect(env *cmdenv.Env) *cobra.Command {
	var dryRun bool
	keep, grace := 0, time.Duration(0)
	c := &cobra.Command{
		Use:   "gc",
		Short: "Remove versions that nothing holds, and objects that nothing names",
		Long: `Remove versions that nothing holds, objects that no version names, unfinished builds that no build is using, and
layers of recipes that no build used for a day. The server does it once a day by itself, and keeps unfinished builds for a day.
A version is held by a tag, by a group or node that wants it, by a node that runs it or boots it, and for a day after it was
written; the newest three of each image stay to go back to.`,
		Example: `  pando store gc --dry-run
  pando store gc --keep 0 --grace 1h`,
		Args: cobra.NoArgs,
	}
	c.Flags().IntVar(&keep, "keep", 3, "newest versions of each image that stay, whether anything holds them or not")
	c.Flags().
		DurationVar(&grace, "grace", 24*time.Hour, "what was written less long ago stays: somebody may be about "+
			"to name it")
	c.RunE = env.Call(func(ctx context.Context, client *api.Client, _ []string) error {
		if keep < 0 || grace < 0 {
			return exitcode.Usagef("--keep and --grace are not negative")
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
		if env.JSON {
			return output.JSON(env.Out, out)
		}
		printCollected(env, out)
		return nil
	})
	env.WriteFlags(c, &dryRun)
	return c
}

func printCollected(env *cmdenv.Env, c api.StoreCollected) {
	if c.DryRun && len(c.Held) > 0 {
		t := output.NewTable(env.Out, "STAYS", "VERSION", "HELD BY")
		for _, h := range c.Held {
			t.Row(h.Image, h.Version.Short(), output.Few(h.By))
		}
		t.Flush()
	}
	for _, v := range c.Versions {
		env.Printf("version %s of %s: nothing holds it\n", v.Version.Short(), orNone(v.Image))
	}
	work, bytes := 0, int64(0)
	for _, w := range c.Work {
		work, bytes = work+1, bytes+w.Bytes
		env.Printf("unfinished build %s: %s, last used %s\n", w.Name, output.Size(w.Bytes),
			output.Ago(env.Now(), w.Used))
	}
	for _, w := range c.WorkStays {
		env.Printf("%s of unfinished build %s stay: %s\n", output.Size(w.Bytes), w.Name, staysBecause[w.Why])
	}
	done := "removed"
	if c.DryRun {
		done = "would be removed"
	}
	env.Printf("%d versions, %d objects of %s and %d unfinished builds of %s %s\n", len(c.Versions), c.Objects,
		output.Size(c.Bytes), work, output.Size(bytes), done)
	if c.Fresh > 0 {
		env.Printf("%d objects of %s that nothing names are too young to go\n", c.Fresh, output.Size(c.FreshBytes))
	}
}

// staysBecause says why the directory of an unfinished build stays, and how to remove it.
var staysBecause = map[api.WorkWhy]string{
	api.WorkBusy:    "a build is using it, or it is no build's",
	api.WorkChanged: "`pando image shell` could not store a change; --continue goes on with it, --grace 0s removes it",
	api.WorkLayers:  "the next build of a recipe begins with it; --grace 0s removes it",
	api.WorkYoung:   "it was used within --grace",
}

// orNone returns the name of an image, or a placeholder for versions without an image.
func orNone(image string) string {
	if image == "" {
		return "no image"
	}
	return image
}

func storeUsage(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "usage",
		Short: "Show what takes how much: by image and version, shared and own",
		Long: `Show what takes how much. OWN is what no other version names: what its removal frees. NEW is what no older version of
the image names: what it cost to keep.`,
		Args: cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			u, err := c.StoreUsage(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, u)
			}
			printUsage(env, u)
			return nil
		}),
	})
}

func printUsage(env *cmdenv.Env, u api.StoreUsage) {
	t := output.NewTable(env.Out, "IMAGE", "VERSION", "TAGS", "ALL", "SHARED", "OWN", "NEW")
	for _, i := range u.Images {
		for _, v := range i.Versions {
			t.Row(
				orNone(i.Image),
				v.Version.Short(),
				strings.Join(v.Tags, " "),
				output.Size(v.Total),
				output.Size(v.Shared),
				output.Size(v.Own),
				output.Size(v.New),
			)
		}
	}
	t.Flush()
	env.Printf("\n")
	var pairs []string
	for _, i := range u.Images {
		pairs = append(
			pairs,
			orNone(i.Image),
			fmt.Sprintf(
				"%s in %s versions, %s of it in no other image",
				output.Size(i.Total),
				strconv.Itoa(len(i.Versions)),
				output.Size(i.Bytes),
			),
		)
	}
	pairs = append(
		pairs,
		"several images",
		output.SizeOf(u.Shared),
		"boot packs",
		output.SizeOf(u.Packs),
		"named by nothing",
		output.SizeOf(u.Unnamed),
		"store",
		fmt.Sprintf(
			"%s in %d objects; %s if each version were kept by itself",
			output.Size(u.Bytes),
			u.Objects,
			output.Size(u.Whole),
		),
		"unfinished builds",
		output.SizeOf(u.Work),
		"layers of recipes",
		output.SizeOf(u.Layers),
	)
	output.Fields(env.Out, pairs...)
	for _, b := range u.Broken {
		env.Printf("not counted: %s\n", b)
	}
}
