package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) imageDiff() *cobra.Command {
	var files int
	c := &cobra.Command{
		Use:   "diff FROM TO",
		Short: "Show how two versions differ: by package, by file, in bytes that a node would fetch",
		Long: `Show how two versions differ. FETCH is what a node that has all of FROM would fetch for TO, on the wire. A file that did
not change may have to be fetched too, because it lies in one chunk with one that did ("together").`,
		Example: `  pando image diff lab:stable lab:latest
  pando image diff lab:stable lab:latest --files 0`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
	}
	c.Flags().IntVar(&files, "files", 20, "files to show; 0: all")
	c.RunE = a.call(func(ctx context.Context, client *api.Client, args []string) error {
		for _, ref := range args {
			if _, _, _, err := fleet.Ref(ref).Split(); err != nil {
				return &usageError{err}
			}
		}
		d, err := client.ImageDiff(ctx, fleet.Ref(args[0]), fleet.Ref(args[1]))
		if err != nil {
			return err
		}
		if a.json {
			return writeJSON(a.out, d)
		}
		a.printDiff(d, files)
		return nil
	})
	return a.readFlags(c)
}

func (a *app) printDiff(d api.ImageDiff, files int) {
	share := ""
	if d.Whole > 0 {
		share = fmt.Sprintf(" (%.1f %% of %s)", float64(d.Root)*100/float64(d.Whole), size(d.Whole))
	}
	fields(
		a.out,
		"from",
		string(d.From)+" "+d.FromHas.Short(),
		"to",
		string(d.To)+" "+d.ToHas.Short(),
		"root",
		size(d.Root)+share,
		"index",
		sizeOf(d.Index),
		"kernel",
		sizeOf(d.Kernel),
		"drivers",
		sizeOf(d.Drivers),
		"boot pack",
		sizeOf(d.Pack),
	)
	var changed []api.PackageChange
	for _, p := range d.Packages {
		if p.Was != p.Is {
			changed = append(changed, p)
		}
	}
	if len(changed) > 0 {
		a.printf("\n")
		t := newTable(a.out, "PACKAGE", "WAS", "IS", "FILES", "FETCH")
		for _, p := range changed {
			t.row(p.Name, p.Was, p.Is, strconv.Itoa(p.Files), size(p.Fetch))
		}
		t.flush()
	}
	if files == 0 {
		files = len(d.Files)
	}
	if len(d.Files) == 0 {
		return
	}
	a.printf("\n")
	t := newTable(a.out, "FILE", "CHANGE", "WAS", "IS", "FETCH")
	for _, f := range d.Files[:min(files, len(d.Files))] {
		name := "/" + f.Path
		if f.Path == "" {
			name = "(inodes and directories)"
		}
		t.row(name, f.Change, sizeOf(f.Was), sizeOf(f.Is), size(f.Fetch))
	}
	t.flush()
	if left := len(d.Files) - files; left > 0 {
		a.printf("and %d more; --files 0 shows all\n", left)
	}
}

func (a *app) imageHistory() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:   "history IMAGE",
		Short: "Show the versions of an image in time: of what they were built, what each cost, and who moved tags",
		Long: `Show the versions of an image, newest first. NEW is the bytes of a version that no older one of the image names: what it
cost to keep, and what a node with the one before fetches at most.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if err := fleet.ValidName("image", args[0]); err != nil {
				return &usageError{err}
			}
			h, err := c.ImageHistory(ctx, args[0])
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, h)
			}
			t := newTable(a.out, "VERSION", "TAGS", "ADDED", "STORED", "NEW", "OF", "BUILT ON", "IN USE BY")
			for _, v := range h.Versions {
				t.row(
					v.Digest.Short(),
					strings.Join(v.Tags, " "),
					clock(v.Added),
					sizeOf(v.Stored),
					size(v.New),
					v.Of,
					v.Host,
					holders(v.InUse),
				)
			}
			t.flush()
			if len(h.Tags) == 0 {
				return nil
			}
			a.printf("\n")
			t = newTable(a.out, "AT", "TAG", "WAS", "IS", "BY")
			for _, m := range h.Tags {
				t.row(clock(m.At), m.Tag, m.Was.Short(), m.Version.Short(), m.Who)
			}
			t.flush()
			return nil
		}),
	})
}
