package image

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

func imageDiff(env *cmdenv.Env) *cobra.Command {
	var files int
	c := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Show how two versions differ: by package, by file, in bytes that a node would fetch",
		Long: `Show how two versions differ. FETCH is what a node that has all of FROM would fetch for TO, on the wire. A file that did
not change may have to be fetched too, because it lies in one chunk with one that did ("together").`,
		Example: `  pando image diff lab:stable lab:latest
  pando image diff lab:stable lab:latest --files 0`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: env.CompleteImages,
	}
	c.Flags().IntVar(&files, "files", 20, "files to show; 0: all")
	c.RunE = env.Call(func(ctx context.Context, client *api.Client, args []string) error {
		for _, ref := range args {
			if _, _, _, err := fleet.Ref(ref).Split(); err != nil {
				return exitcode.AsUsage(err)
			}
		}
		d, err := client.ImageDiff(ctx, fleet.Ref(args[0]), fleet.Ref(args[1]))
		if err != nil {
			return err
		}
		if env.JSON {
			return output.JSON(env.Out, d)
		}
		printDiff(env, d, files)
		return nil
	})
	return env.ReadFlags(c)
}

func printDiff(env *cmdenv.Env, d api.ImageDiff, files int) {
	share := ""
	if d.Whole > 0 {
		share = fmt.Sprintf(" (%.1f %% of %s)", float64(d.Root)*100/float64(d.Whole), output.Size(d.Whole))
	}
	output.Fields(
		env.Out,
		"from",
		string(d.From)+" "+d.FromHas.Short(),
		"to",
		string(d.To)+" "+d.ToHas.Short(),
		"root",
		output.Size(d.Root)+share,
		"index",
		output.SizeOf(d.Index),
		"kernel",
		output.SizeOf(d.Kernel),
		"drivers",
		output.SizeOf(d.Drivers),
		"boot pack",
		output.SizeOf(d.Pack),
		"packages",
		cmdenv.PackageCounts(d.Packages),
	)
	var changed []api.PackageChange
	for _, p := range d.Packages {
		if p.Change != api.PackageTogether {
			changed = append(changed, p)
		}
	}
	if len(changed) > 0 {
		env.Printf("\n")
		t := output.NewTable(env.Out, "PACKAGE", "CHANGE", "WAS", "IS", "FILES", "FETCH")
		for _, p := range changed {
			t.Row(p.Name, string(p.Change), p.Was, p.Is, strconv.Itoa(p.Files), output.Size(p.Fetch))
		}
		t.Flush()
	}
	if files == 0 {
		files = len(d.Files)
	}
	if len(d.Files) == 0 {
		return
	}
	env.Printf("\n")
	t := output.NewTable(env.Out, "FILE", "CHANGE", "WAS", "IS", "FETCH")
	for _, f := range d.Files[:min(files, len(d.Files))] {
		name := "/" + f.Path
		if f.Path == "" {
			name = "(inodes and directories)"
		}
		t.Row(name, f.Change, output.SizeOf(f.Was), output.SizeOf(f.Is), output.Size(f.Fetch))
	}
	t.Flush()
	if left := len(d.Files) - files; left > 0 {
		env.Printf("and %d more; --files 0 shows all\n", left)
	}
}

func imageHistory(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "history IMAGE",
		Short: "Show the versions of an image in time: of what they were built, what each cost, and who moved tags",
		Long: `Show the versions of an image, newest first. NEW is the bytes of a version that no older one of the image names: what it
cost to keep, and what a node with the one before fetches at most.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := fleet.ValidName("image", args[0]); err != nil {
				return exitcode.AsUsage(err)
			}
			h, err := c.ImageHistory(ctx, args[0])
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, h)
			}
			t := output.NewTable(env.Out, "VERSION", "TAGS", "ADDED", "STORED", "NEW", "OF", "BUILT ON", "IN USE BY")
			for _, v := range h.Versions {
				t.Row(
					v.Digest.Short(),
					strings.Join(v.Tags, " "),
					output.Time(v.Added),
					output.SizeOf(v.Stored),
					output.Size(v.New),
					v.Of,
					v.Host,
					output.Few(v.InUse),
				)
			}
			t.Flush()
			if len(h.Tags) == 0 {
				return nil
			}
			env.Printf("\n")
			t = output.NewTable(env.Out, "AT", "TAG", "WAS", "IS", "BY")
			for _, m := range h.Tags {
				t.Row(output.Time(m.At), m.Tag, m.Was.Short(), m.Version.Short(), m.Who)
			}
			t.Flush()
			return nil
		}),
	})
}
