package image

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
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
)

func imageTrace(env *cmdenv.Env) *cobra.Command {
	var files int
	order := "read"
	c := &cobra.Command{
		Use:   "trace IMAGE",
		Short: "Show what a boot of an image reads, and what would shrink it",
		Example: `  pando image trace lab
  pando image trace lab:stable --files 0 --sort first`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if _, _, _, err := fleet.Ref(args[0]).Split(); err != nil {
				return exitcode.AsUsage(err)
			}
			by, ok := fileOrders[order]
			if !ok || files < 0 {
				return exitcode.AsUsage(fmt.Errorf(
					"--sort %q: want read, size, first or path; --files is a number of lines, 0 for all",
					order,
				))
			}
			t, err := c.ImageTrace(ctx, fleet.Ref(args[0]))
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, t)
			}
			slices.SortStableFunc(t.Files, by)
			if files > 0 {
				printTrace(env, t, files)
			} else {
				printTrace(env, t, len(t.Files))
			}
			return nil
		}),
	}
	c.Flags().IntVar(&files, "files", 20, "show so many files; 0: all")
	c.Flags().StringVar(&order, "sort", order, "order of the files: read, size, first, path")
	return env.ReadFlags(c)
}

// fileOrders are the sort orders of --sort.
var fileOrders = map[string]func(a, b api.TraceFile) int{
	"read":  func(a, b api.TraceFile) int { return cmp.Compare(b.Read, a.Read) },
	"size":  func(a, b api.TraceFile) int { return cmp.Compare(b.Size, a.Size) },
	"first": func(a, b api.TraceFile) int { return cmp.Compare(a.First, b.First) },
	"path":  func(a, b api.TraceFile) int { return strings.Compare(a.Path, b.Path) },
}

func printTrace(env *cmdenv.Env, t api.ImageTrace, files int) {
	if t.Read == 0 {
		env.Printf(
			"%s: no boot of version %s was recorded yet; the second boot makes its boot pack\n",
			t.Image,
			t.Version.Short(),
		)
		return
	}
	output.Fields(env.Out, "image", t.Image, "version", string(t.Version), "boots", recorded(env, t),
		"read", output.Used(t.Read, t.RootSize), "as chunks", onWire(t.Chunks, t.Read))
	for _, p := range t.Packs {
		printPack(env, t, p)
	}
	printStages(env, t)
	printPlaces(env, t)
	printFiles(env, t, files)
	if len(t.Advice) > 0 {
		env.Printf("\nWhat would shrink it\n")
	}
	for _, v := range t.Advice {
		env.Printf("%8s  %s\n", output.Size(v.Read), v.Text)
	}
}

// recorded describes the boots that were recorded.
func recorded(env *cmdenv.Env, t api.ImageTrace) string {
	if len(t.Boots) == 0 {
		return "none yet: what is shown is what its boot pack expects"
	}
	newest := t.Boots[0]
	return fmt.Sprintf(
		"%d recorded; the last: %s, %d requests, %s",
		len(t.Boots),
		newest.Node,
		newest.Requests,
		output.Ago(env.Now(), newest.Received),
	)
}

// onWire returns "14.9 MB on the wire (37 % of what is read)".
func onWire(n, read int64) string {
	if n == 0 || read == 0 {
		return ""
	}
	return fmt.Sprintf("%s on the wire (%d %% of what is read)", output.Size(n), n*100/read)
}

func printPack(env *cmdenv.Env, t api.ImageTrace, p api.Pack) {
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
		until = fmt.Sprintf(", %s of it until booted", output.Size(p.BootSet))
	}
	output.Fields(
		env.Out,
		name,
		fmt.Sprintf(
			"%s in %d pieces%s; number %d, %s, %s",
			onWire(p.Stored, p.Raw),
			p.Pieces,
			until,
			p.Sequence,
			origin,
			output.Ago(env.Now(), p.Made),
		),
	)
	for _, b := range t.Boots {
		if b.Pack == p.Object && b.Hits+b.Misses > 0 {
			later := ""
			if b.WastedLater > 0 {
				later = fmt.Sprintf(", nor %s of what it has for later", output.Size(b.WastedLater))
			}
			env.Printf(
				"  %s found %s %% of what it read in it; %s of it was not read%s\n",
				b.Node,
				strconv.FormatFloat(
					float64(b.Hits)*100/float64(b.Hits+b.Misses),
					'f',
					1,
					64,
				),
				output.Size(b.Wasted),
				later,
			)
		}
	}
}

func printStages(env *cmdenv.Env, t api.ImageTrace) {
	if len(t.Stages) == 0 {
		return
	}
	env.Printf("\n")
	w := output.NewTable(env.Out, "UNTIL", "READ", "REQUESTS")
	for _, s := range t.Stages {
		w.Row(string(s.Stage), output.Size(s.Read), strconv.Itoa(s.Requests))
	}
	w.Flush()
}

// maxPlaces is how many directories are shown.
const maxPlaces = 10

// printPlaces prints the sums of files by directory, three levels deep.
func printPlaces(env *cmdenv.Env, t api.ImageTrace) {
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
	env.Printf("\n")
	w := output.NewTable(env.Out, "DIRECTORY", "READ", "FILES")
	for _, p := range places[:min(maxPlaces, len(places))] {
		w.Row(p, output.Size(read[p]), strconv.Itoa(count[p]))
	}
	w.Flush()
}

func printFiles(env *cmdenv.Env, t api.ImageTrace, files int) {
	env.Printf("\n")
	w := output.NewTable(env.Out, "FILE", "READ", "OF", "FIRST", "UNTIL")
	for _, f := range t.Files[:min(files, len(t.Files))] {
		name, first := "/"+f.Path, output.Span(f.First)
		if f.Path == "" {
			name = "(inodes and directories)"
		}
		if len(t.Boots) == 0 {
			first = ""
		}
		w.Row(name, output.Size(f.Read), output.SizeOf(f.Size), first, string(f.Stage))
	}
	w.Flush()
	if left := len(t.Files) - files; left > 0 {
		env.Printf("and %d more; --files 0 shows all\n", left)
	}
}
