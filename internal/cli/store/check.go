package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/output"
	"pando/internal/steps"
	"pando/internal/store"
	"pando/internal/storeflags"
	"pando/internal/terminal"
)

func storeCheck(env *cmdenv.Env) *cobra.Command {
	var repair bool
	var from []string
	c := &cobra.Command{
		Use:   "check",
		Short: "Read every object, and say what is broken in which file of which image",
		Long: `Read every object of the store on this machine and compare it with its name, verify every manifest, and follow each to
all that it names. Exit status 7 says that something is wrong. With --repair it is fetched again from where --from says,
and verified: from another store, or from nodes that run, which have what they share in a boot (their boot pack and what they
read last). What nobody has is named with the build that brings it back. Needs no server, but without one versions
have no names, and nodes no addresses.`,
		Example: `  pando store check
  pando store check --repair --from /mnt/usb/store --from http://10.0.0.2
  pando store check --repair --from node:@lab1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return checkStore(env, cmd.Context(), nil, repair || len(from) > 0, from)
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "fix what can be fixed")
	c.Flags().
		StringArrayVar(&from, "from", nil, "what to fix it from: another store's directory, the address of a "+
			"server, s3://BUCKET/PREFIX (its endpoint from AWS_ENDPOINT_URL), or node:SET, nodes that are up "+
			"(node: is all)")
	return env.ReadFlags(c)
}

// VerifyCommand returns the command `image verify`.
func VerifyCommand(env *cmdenv.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify IMAGE",
		Short: "Verify versions: signature, index, every object",
		Example: `  pando image verify lab
  pando image verify lab:stable`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if env.Server != "" {
				return exitcode.WithHint(
					exitcode.Usagef("image verify: works on the machine of the server, not through --server"),
					"run it there",
				)
			}
			i, err := cmdenv.FindImage(ctx, c, args[0])
			if err != nil {
				return err
			}
			var only []fleet.Digest
			for _, v := range i.Versions {
				only = append(only, v.Digest)
			}
			return checkStore(env, ctx, only, false, nil)
		}),
	}
	return env.ReadFlags(c)
}

// checkedStore is what `store check` and `image verify` print with --json.
type checkedStore struct {
	Versions int          `json:"versions"` // number of complete versions
	Objects  int64        `json:"objects"`
	Bytes    int64        `json:"bytes"`
	Unnamed  int64        `json:"unnamed"` // objects that no version references
	Problems []brokenPart `json:"problems"`
	Fixed    []brokenPart `json:"mended"`
}

// brokenPart is one problem, fixed or not.
type brokenPart struct {
	Image   string       `json:"image,omitempty"` // name:tag, or the name
	Version fleet.Digest `json:"version,omitempty"`
	Object  string       `json:"object,omitempty"`
	Files   []string     `json:"files,omitempty"` // files of the root file system that are in the object
	Text    string       `json:"text"`
	Hint    string       `json:"hint,omitempty"`
}

// checkStore checks the whole store or, if only is not empty, some versions.
func checkStore(env *cmdenv.Env, ctx context.Context, only []fleet.Digest, repair bool, from []string) error {
	if env.Server != "" {
		return exitcode.WithHint(exitcode.Usagef("store check: works on the machine of the server, not through "+
			"--server"), "run it there")
	}
	if _, err := os.Stat(filepath.Join(env.Data, "keys")); err != nil {
		return exitcode.WithHint(err, "name the data directory with --data")
	}
	dir, err := storeflags.OpenDir(ctx, env.Data)
	if err != nil {
		return err
	}
	keys, err := identity.Open(filepath.Join(env.Data, "keys"))
	if err != nil {
		return err
	}
	in := store.Inspection{Keys: keys.Ring.Trust().Accepted(), Versions: only, Only: only != nil, Repair: repair}
	for _, f := range from {
		s, err := seconds(env, ctx, f)
		if err != nil {
			return err
		}
		in.From = append(in.From, s...)
	}
	names := askVersionNames(env, ctx)
	if only == nil {
		in.Versions = names.known
	}
	if repair {
		unlock, err := dir.Lock(ctx, "store check --repair")
		if err != nil {
			return err
		}
		defer unlock()
	}
	out := env.Out
	if env.JSON {
		out = env.Err
	}
	p := terminal.NewProgress(out, env.Now, nil)
	in.Each = func(bytes int64) { p.Show(steps.Progress{Step: "check", Done: bytes, Unit: "bytes"}) }
	report, err := dir.Inspect(ctx, in)
	p.End(err == nil)
	if err != nil {
		return err
	}
	return printChecked(env, ctx, dir, names, report)
}

// versionNames are the names of versions, and the set of versions that the store should have.
type versionNames struct {
	of    map[fleet.Digest]string
	known []fleet.Digest
}

// askVersionNames reads the names from the server. Without a running server versions have no names.
func askVersionNames(env *cmdenv.Env, ctx context.Context) versionNames {
	n := versionNames{of: map[fleet.Digest]string{}}
	c, err := env.Client()
	if err != nil {
		return n
	}
	defer c.Close()
	images, err := c.Images(ctx)
	if err != nil {
		return n
	}
	for _, i := range images {
		for _, v := range i.Versions {
			n.known = append(n.known, v.Digest)
			name := i.Name
			if len(v.Tags) > 0 {
				name += ":" + v.Tags[0]
			}
			if n.of[v.Digest] == "" || len(v.Tags) > 0 {
				n.of[v.Digest] = name
			}
		}
	}
	return n
}

func printChecked(env *cmdenv.Env, ctx context.Context, dir *store.Dir, names versionNames, r store.Report) error {
	out := checkedStore{
		Versions: r.Versions,
		Objects:  r.Objects,
		Bytes:    r.Bytes,
		Unnamed:  r.Unused,
		Problems: []brokenPart{},
		Fixed:    []brokenPart{},
	}
	maps := map[fleet.Digest]*imagefs.Map{}
	for _, p := range r.Problems {
		out.Problems = append(out.Problems, namedProblem(ctx, dir, names, maps, p, true))
	}
	for _, p := range r.Fixed {
		out.Fixed = append(out.Fixed, namedProblem(ctx, dir, names, maps, p, false))
	}
	if env.JSON {
		if err := output.JSON(env.Out, out); err != nil {
			return err
		}
	} else {
		sameHint(out.Problems)
		printProblems(env, "fixed", out.Fixed)
		printProblems(env, "wrong", out.Problems)
		env.Printf("%d versions are whole; %d objects of %s are "+
			"good", out.Versions, out.Objects, output.Size(out.Bytes))
		if out.Unnamed > 0 {
			env.Printf(", %d of them named by nothing", out.Unnamed)
		}
		env.Printf("; %d fixed, %d problems\n", len(out.Fixed), len(out.Problems))
	}
	if len(out.Problems) > 0 {
		return exitcode.Silent(exitcode.Problem)
	}
	return nil
}

func printProblems(env *cmdenv.Env, word string, all []brokenPart) {
	for _, p := range all {
		what := p.Text
		if p.Object != "" {
			what = "object " + chunk12(p.Object) + ": " + what
		}
		if p.Version != "" {
			what = strings.TrimSpace(p.Image+" version "+p.Version.Short()) + ": " + what
		}
		env.Printf("%s: %s\n", word, what)
		if len(p.Files) > 0 {
			more := ""
			if len(p.Files) > maxNamed {
				more = fmt.Sprintf(" and %d more", len(p.Files)-maxNamed)
			}
			env.Printf("  in %s%s\n", strings.Join(p.Files[:min(maxNamed, len(p.Files))], ", "), more)
		}
		if p.Hint != "" {
			env.Printf("  hint: %s\n", p.Hint)
		}
	}
}

// maxNamed is how many files of one object are shown: a chunk may contain dozens of small files.
const maxNamed = 6

func chunk12(object string) string {
	return strings.TrimPrefix(object, "sha256:")[:12]
}

// namedProblem adds the affected image and files to a problem and, if it is not fixed, a hint.
func namedProblem(
	ctx context.Context,
	dir *store.Dir,
	names versionNames,
	maps map[fleet.Digest]*imagefs.Map,
	p store.Problem,
	open bool,
) brokenPart {
	out := brokenPart{Image: names.of[p.Version], Version: p.Version, Text: p.Text}
	if !p.Object.IsZero() {
		out.Object = p.Object.String()
	}
	if p.Version == "" {
		return out
	}
	if p.Raw > 0 {
		out.Files = filesIn(ctx, dir, maps, p)
	}
	if open {
		out.Hint = rebuildHint(dir, out.Image, p.Version)
	}
	return out
}

// filesIn returns the files in the damaged chunk. If inodes of the version are damaged too, it returns only the files
// whose inodes can be read.
func filesIn(ctx context.Context, dir *store.Dir, maps map[fleet.Digest]*imagefs.Map, p store.Problem) []string {
	root, ok := maps[p.Version]
	if !ok {
		if m, err := manifestOf(dir, p.Version); err == nil {
			root, _ = imagefs.ReadMapInPart(ctx, dir, m) // nil: not even the root inode can be read
		}
		maps[p.Version] = root
	}
	if root == nil {
		return []string{"the file system's own tables"}
	}
	data, inodes := root.In(p.Start, p.Raw)
	var out []string
	for _, f := range data {
		out = append(out, "/"+f.Path)
	}
	if len(inodes) > 0 {
		out = append(out, fmt.Sprintf("the inodes of %d files", len(inodes)))
	}
	if len(out) == 0 && p.Raw >= chunk.BlockSize {
		out = append(out, "inodes or directories")
	}
	return out
}

func manifestOf(dir *store.Dir, v fleet.Digest) (image.Manifest, error) {
	kept, err := dir.GetVersion(v)
	if err != nil && kept.Manifest == nil {
		return image.Manifest{}, err
	}
	return image.Decode(kept.Manifest)
}

// rebuildHint says how to restore the objects of a version.
func rebuildHint(dir *store.Dir, name string, v fleet.Digest) string {
	name, _, _ = strings.Cut(name, ":")
	if name == "" {
		name = "NAME"
	}
	again := "`pando store check --repair --from` another store, or build it again"
	kept, err := dir.GetVersion(v)
	if kept.Provenance == nil || err != nil && !errors.Is(err, os.ErrNotExist) {
		return again
	}
	p, err := image.DecodeProvenance(kept.Provenance)
	switch {
	case err != nil:
		return again
	case p.FromDir != "":
		return again + fmt.Sprintf(
			": `pando store check --repair`, then `pando image build %s --from-dir %s`",
			name,
			p.FromDir,
		)
	case p.Recipe != "":
		return again + fmt.Sprintf(
			": `pando store check --repair`, then `pando image build %s --recipe %s`",
			name,
			p.Recipe,
		)
	}
	return again
}

// sameHint removes hints that repeat an earlier one.
func sameHint(all []brokenPart) {
	var given []string
	for i := range all {
		if slices.Contains(given, all[i].Hint) {
			all[i].Hint = ""
			continue
		}
		given = append(given, all[i].Hint)
	}
}
