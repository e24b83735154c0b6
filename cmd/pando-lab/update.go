package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pando/internal/build"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
)

// update measures what an update of packages costs: an image is built of the packages that a release of Debian had at its
// last point release, and again with the updates since, with the same kernel, and the bytes of objects that are new are counted.
type update struct {
	lab
	archive string // address of Debian's archive
}

const updateSuite = "bookworm"

func newUpdate(args []string, stdout, stderr io.Writer) (*update, error) {
	u := &update{lab: lab{out: stdout, err: stderr}}
	f := flag.NewFlagSet("pando-lab update", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&u.dir, "dir", "build/storm", "where the result is written; beside storm.json the page takes it")
	f.StringVar(&u.archive, "archive", "", "address of an archive that has "+updateSuite+" without later updates (default: this machine's own)")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := u.place(f.Args())
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab update:", err)
	}
	return u, err
}

// updateResult is what was measured, in bytes.
type updateResult struct {
	Date     time.Time `json:"date"`
	Packages []string  `json:"packages"` // that changed, as name, version before and after
	Kernel   string    `json:"kernel"`   // of both
	Image    int64     `json:"image"`    // of the root's objects, compressed
	New      int64     `json:"new"`      // of objects that the version before did not have
}

// mostNew is the aim: so much of a compressed image may be new.
const mostNew = 0.38

// target is the update's line; nil: it was not measured.
func (r *updateResult) target() target {
	t := target{what: "bytes that are new in an update of a dozen packages without the kernel, to the compressed image", limit: mostNew}
	if r != nil && r.Image > 0 {
		t.what = fmt.Sprintf("bytes that are new in an update of %d packages without the kernel, to the compressed image (%.1f of %.1f MB)", len(r.Packages), mega(r.New), mega(r.Image))
		t.got, t.ok = float64(r.New)/float64(r.Image), true
	}
	return t
}

func (u *update) measure(ctx context.Context) error {
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(u.dir, "store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if u.archive == "" {
		if u.archive, err = ownArchive(ctx); err != nil {
			return err
		}
	}
	before, err := u.image(ctx, work, "mirrors: [deb "+u.archive+" "+updateSuite+" main]\n")
	if err != nil {
		return err
	}
	after, err := u.image(ctx, work, "packages: [\"linux-image-{architecture}/"+updateSuite+"\"]\n")
	if err != nil {
		return err
	}
	if before.Manifest.Kernel.Release != after.Manifest.Kernel.Release {
		return fmt.Errorf("the kernel changed too, from %s to %s", before.Manifest.Kernel.Release, after.Manifest.Kernel.Release)
	}
	r := updateResult{Date: time.Now().UTC().Truncate(time.Second), Packages: changed(before.Provenance.Packages, after.Provenance.Packages), Kernel: after.Manifest.Kernel.Release,
		Image: after.Manifest.Sizes.Stored, New: after.NewBytes}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	u.say("%d packages changed: %s", len(r.Packages), strings.Join(r.Packages, ", "))
	u.say("New in the second version: %.1f MB of %.1f MB, %.3f", mega(r.New), mega(r.Image), float64(r.New)/float64(r.Image))
	return store.WriteFile(filepath.Join(u.dir, "update.json"), append(b, '\n'), 0o644)
}

// changed lists packages that are in both with another version.
func changed(before, after []image.Package) (out []string) {
	was := map[string]string{}
	for _, p := range before {
		was[p.Name] = p.Version
	}
	for _, p := range after {
		if v, ok := was[p.Name]; ok && v != p.Version {
			out = append(out, p.Name+" "+v+" -> "+p.Version)
		}
	}
	return out
}

// ownArchive is where this machine has the release from.
func ownArchive(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages").Output()
	if err == nil {
		for line := range strings.Lines(string(out)) {
			if uri, ok := strings.CutPrefix(line, updateSuite+" "); ok {
				return strings.TrimSpace(uri), nil
			}
		}
	}
	return "", fmt.Errorf("this machine's apt knows no archive of %s (name one with --archive)", updateSuite)
}

// image builds a version of the release with a line of a recipe.
func (u *update) image(ctx context.Context, work, line string) (build.Result, error) {
	text := "from: debian:" + updateSuite + "\n" + line
	file := filepath.Join(work, "recipe.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return build.Result{}, err
	}
	u.say("Building by the recipe\n%s", text)
	r, err := u.buildImage(ctx, work, file)
	if err != nil {
		return r, fmt.Errorf("build by the recipe\n%s%w", text, err)
	}
	return r, nil
}

// buildImage builds a version by a recipe, with keys and store below a directory, and no server.
func (l *lab) buildImage(ctx context.Context, work, recipe string) (build.Result, error) {
	r, err := build.LoadRecipe(recipe)
	if err != nil {
		return build.Result{}, err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return build.Result{}, err
	}
	keys, err := identity.Open(filepath.Join(work, "keys"))
	if err != nil {
		return build.Result{}, err
	}
	dir, err := store.OpenDir(filepath.Join(work, "store"))
	if err != nil {
		return build.Result{}, err
	}
	return build.Image(ctx, build.Options{Recipe: r, Store: dir, Keys: keys.Ring.Signers(), Work: filepath.Join(work, "work")})
}
