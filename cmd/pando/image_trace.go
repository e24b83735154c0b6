package main

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/fleet"
)

func (a *app) imageTrace() *cobra.Command {
	var files int
	order := "read"
	c := &cobra.Command{
		Use:   "trace IMAGE",
		Short: "Show what a boot of an image reads, and what would shrink it",
		Example: `  pando image trace lab
  pando image trace lab:stable --files 0 --sort first`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: a.call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, _, _, err := fleet.Ref(args[0]).Split(); err != nil {
				return &usageError{err}
			}
			by, ok := fileOrders[order]
			if !ok || files < 0 {
				return &usageError{
					fmt.Errorf(
						"--sort %q: want read, size, first or path; --files is a number of lines, 0 for all",
						order,
					),
				}
			}
			t, err := c.ImageTrace(ctx, fleet.Ref(args[0]))
			if err != nil {
				return err
			}
			if a.json {
				return writeJSON(a.out, t)
			}
			slices.SortStableFunc(t.Files, by)
			if files > 0 {
				a.printTrace(t, files)
			} else {
				a.printTrace(t, len(t.Files))
			}
			return nil
		}),
	}
	c.Flags().IntVar(&files, "files", 20, "show so many files; 0: all")
	c.Flags().StringVar(&order, "sort", order, "order of the files: read, size, first, path")
	return a.readFlags(c)
}

// fileOrders are the orders that --sort knows.
var fileOrders = map[string]func(a, b api.TraceFile) int{
	"read":  func(a, b api.TraceFile) int { return cmp.Compare(b.Read, a.Read) },
	"size":  func(a, b api.TraceFile) int { return cmp.Compare(b.Size, a.Size) },
	"first": func(a, b api.TraceFile) int { return cmp.Compare(a.First, b.First) },
	"path":  func(a, b api.TraceFile) int { return strings.Compare(a.Path, b.Path) },
}

func (a *app) printTrace(t api.ImageTrace, files int) {
	if t.Read == 0 {
		a.printf(
			"%s: no boot of version %s was recorded yet; the second boot makes its boot pack\n",
			t.Image,
			t.Version.Short(),
		)
		return
	}
	fields(a.out, "image", t.Image, "version", string(t.Version), "boots", a.recorded(t),
		"read", used(t.Read, t.RootSize), "as chunks", onWire(t.Chunks, t.Read))
	for _, p := range t.Packs {
		a.printPack(t, p)
	}
	a.printStages(t)
	a.printPlaces(t)
	a.printFiles(t, files)
	if len(t.Advice) > 0 {
		a.printf("\nWhat would shrink it\n")
	}
	for _, v := range t.Advice {
		a.printf("%8s  %s\n", size(v.Read), v.Text)
	}
}

// recorded says which boots are known.
func (a *app) recorded(t api.ImageTrace) string {
	if len(t.Boots) == 0 {
		return "none yet: what is shown is what its boot pack expects"
	}
	newest := t.Boots[0]
	return fmt.Sprintf(
		"%d recorded; the last: %s, %d requests, %s",
		len(t.Boots),
		newest.Node,
		newest.Requests,
		ago(a.now(), newest.Received),
	)
}

// onWire is "14.9 MB on the wire (37 % of what is read)".
func onWire(n, read int64) string {
	if n == 0 || read == 0 {
		return ""
	}
	return fmt.Sprintf("%s on the wire (%d %% of what is read)", size(n), n*100/read)
}

func (a *app) printPack(t api.ImageTrace, p api.Pack) {
	name, origin := "boot pack", fmt.Sprintf("of %d boots", p.Boots)
	if p.Class != "" {
		name += " of " + p.Class
	}
	switch {
	case p.Boots > 0:
	case p.From == "":
		origin = "all that the extension has"
	default:
		origin = "carried over from version " + p.From.Short()
	}
	until := ""
	if p.BootSet < p.Stored {
		until = fmt.Sprintf(", %s of it until booted", size(p.BootSet))
	}
	fields(
		a.out,
		name,
		fmt.Sprintf(
			"%s in %d pieces%s; number %d, %s, %s",
			onWire(p.Stored, p.Raw),
			p.Pieces,
			until,
			p.Sequence,
			origin,
			ago(a.now(), p.Made),
		),
	)
	for _, b := range t.Boots {
		if b.Pack == p.Object && b.Hits+b.Misses > 0 {
			later := ""
			if b.Late > 0 {
				later = fmt.Sprintf(", nor %s of what it has for later", size(b.Late))
			}
			a.printf("  %s found %s %% of what it read in it; %s of it was not read%s\n", b.Node,
				strconv.FormatFloat(float64(b.Hits)*100/float64(b.Hits+b.Misses), 'f', 1, 64), size(b.Wasted), later)
		}
	}
}

func (a *app) printStages(t api.ImageTrace) {
	if len(t.Stages) == 0 {
		return
	}
	a.printf("\n")
	w := newTable(a.out, "UNTIL", "READ", "REQUESTS")
	for _, s := range t.Stages {
		w.row(string(s.Stage), size(s.Read), strconv.Itoa(s.Requests))
	}
	w.flush()
}

// maxPlaces is how many directories are shown.
const maxPlaces = 10

// printPlaces adds the files up by directory, three levels deep.
func (a *app) printPlaces(t api.ImageTrace) {
	read, count, places := map[string]int64{}, map[string]int{}, []string{}
	for _, f := range t.Files {
		dir := "(inodes and directories)"
		if f.Path != "" {
			parts := strings.SplitN(strings.Trim(path.Dir("/"+f.Path), "/"), "/", 4)
			dir = "/" + strings.Join(parts[:min(3, len(parts))], "/")
		}
		if count[dir] == 0 {
			places = append(places, dir)
		}
		read[dir] += f.Read
		count[dir]++
	}
	slices.SortFunc(
		places,
		func(x, y string) int { return cmp.Or(cmp.Compare(read[y], read[x]), strings.Compare(x, y)) },
	)
	a.printf("\n")
	w := newTable(a.out, "DIRECTORY", "READ", "FILES")
	for _, p := range places[:min(maxPlaces, len(places))] {
		w.row(p, size(read[p]), strconv.Itoa(count[p]))
	}
	w.flush()
}

func (a *app) printFiles(t api.ImageTrace, files int) {
	a.printf("\n")
	w := newTable(a.out, "FILE", "READ", "OF", "FIRST", "UNTIL")
	for _, f := range t.Files[:min(files, len(t.Files))] {
		name, first := "/"+f.Path, span(f.First)
		if f.Path == "" {
			name = "(inodes and directories)"
		}
		if len(t.Boots) == 0 {
			first = ""
		}
		w.row(name, size(f.Read), sizeOf(f.Size), first, string(f.Stage))
	}
	w.flush()
	if left := len(t.Files) - files; left > 0 {
		a.printf("and %d more; --files 0 shows all\n", left)
	}
}
