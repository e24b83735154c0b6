package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pando/internal/image"
	"pando/internal/store"
)

// update measures what changes of an image cost: a tree is installed of the packages that a release of Debian had at its last
// point release, and updated; and the bytes are counted that are new for Pando, and for what else keeps or sends trees.
type update struct {
	lab
	archive string // address of Debian's archive
	page    string // "": measure; else write the page
	days    int
}

const updateSuite = "bookworm"

// updateRecipe is the tree of the measurement: a small server with what a laboratory installs, so that there are enough
// packages of which Debian has newer ones.
const updateRecipe = `from: debian:` + updateSuite + `
mirrors: [deb %s ` + updateSuite + ` main]
packages: [curl, git, python3, rsync, bind9-dnsutils, sudo, nginx-light, php8.2-cli, nodejs, poppler-utils, ghostscript,
  libarchive-tools, xsltproc, sqlite3, libnss3-tools, xz-utils, openssl, wget]
`

func newUpdate(args []string, stdout, stderr io.Writer) (*update, error) {
	u := &update{lab: lab{out: stdout, err: stderr}}
	f := flag.NewFlagSet("pando-lab update", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&u.dir, "dir", "build/storm", "where the result is written; beside storm.json the page of storms takes it")
	f.StringVar(&u.archive, "archive", "", "address of an archive that has "+updateSuite+" without later updates (default: this machine's own)")
	f.StringVar(&u.page, "page", "", "write this page from update.json, and from build.json beside it or in build/build, and measure nothing")
	f.IntVar(&u.days, "days", 30, "how many daily versions are made")
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
	Packages []string  `json:"packages"` // that changed at once, as name, version before and after
	Kernel   string    `json:"kernel"`   // of both
	Image    int64     `json:"image"`    // of the root's objects, compressed
	New      int64     `json:"new"`      // of objects that the version before did not have

	Tree  int64       `json:"tree"`  // of the files, before compression
	Ways  []wayResult `json:"ways"`  // Pando's is the first one
	Steps []dayResult `json:"steps"` // the daily versions
}

// wayResult is what one way of keeping trees had to write.
type wayResult struct {
	Name   string  `json:"name"`
	Whole  int64   `json:"whole"`  // the first version
	Update int64   `json:"update"` // all updates at once, after the first version
	Days   []int64 `json:"days"`   // each daily version, after the one before it; none: it was not done each day
}

// dayResult is one daily version.
type dayResult struct {
	What     string   `json:"what"`
	Packages []string `json:"packages,omitempty"` // those that changed
	Update   bool     `json:"update"`             // it is one source package of Debian's updates
}

// mostNew is the aim: so much of a compressed image may be new; mostNewOne: of one package.
const (
	mostNew    = 0.38
	mostNewOne = 0.05
)

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
	if u.page != "" {
		return u.writePage()
	}
	if os.Geteuid() != 0 {
		return errors.New("root is needed: packages are installed")
	}
	if err := os.MkdirAll(u.dir, 0o755); err != nil {
		return err
	}
	base, err := u.base(ctx)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(u.dir, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	first := updateTree{path: filepath.Join(work, "tree"), cache: filepath.Join(u.dir, "update-debs")}
	if err := copyTree(ctx, base, first.path); err != nil {
		return err
	}
	r := &updateResult{Date: time.Now().UTC().Truncate(time.Second)}
	if r.Tree, _, err = weigh(first.path); err != nil {
		return err
	}
	if err := u.atOnce(ctx, work, first, r); err != nil {
		return err
	}
	if err := u.eachDay(ctx, work, first, r); err != nil {
		return err
	}
	u.say("\n%s", r.table())
	return nil
}

// save writes what was measured so far: it takes an hour.
func (u *update) save(r *updateResult) error { return saveJSON(filepath.Join(u.dir, "update.json"), r) }

// saveJSON writes a result for people and for pages.
func saveJSON(path string, result any) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(path, append(text, '\n'), 0o644)
}

// atOnce measures the first version, and one with all updates.
func (u *update) atOnce(ctx context.Context, work string, first updateTree, r *updateResult) error {
	second := updateTree{cache: first.cache, path: filepath.Join(work, "second")}
	if err := copyTree(ctx, first.path, second.path); err != nil {
		return err
	}
	was, err := second.packages(ctx)
	if err != nil {
		return err
	}
	updates, err := second.updates(ctx)
	if err != nil {
		return err
	}
	for _, p := range updates {
		if err := second.install(ctx, true, p.packages...); err != nil {
			return err
		}
	}
	is, err := second.packages(ctx)
	if err != nil {
		return err
	}
	r.Packages, r.Kernel = changed(was, is), second.kernel()
	u.say("%d packages are newer: %s", len(r.Packages), strings.Join(r.Packages, ", "))
	for _, way := range updateWays(&u.lab) {
		dir := filepath.Join(work, "once-"+way.name)
		x := wayResult{Name: way.name}
		if x.Whole, err = way.add(ctx, dir, first.path); err == nil {
			x.Update, err = way.add(ctx, dir, second.path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		r.Ways = append(r.Ways, x)
		u.say("%-28s %7.1f MB, then %6.1f MB new, %.3f", x.Name, mega(x.Whole), mega(x.Update), float64(x.Update)/float64(x.Whole))
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	r.Image, r.New = r.Ways[0].Whole, r.Ways[0].Update
	return os.RemoveAll(second.path)
}

// eachDay measures a version a day, each made of the one before.
func (u *update) eachDay(ctx context.Context, work string, tree updateTree, r *updateResult) error {
	days, err := tree.plan(ctx, u.days)
	if err != nil {
		return err
	}
	for n := 0; n <= len(days); n++ {
		if n > 0 {
			was, err := tree.packages(ctx)
			if err == nil {
				err = days[n-1].do(ctx)
			}
			if err != nil {
				return fmt.Errorf("day %d, %s: %w", n, days[n-1].What, err)
			}
			is, err := tree.packages(ctx)
			if err != nil {
				return err
			}
			days[n-1].Packages = changed(was, is)
			r.Steps = append(r.Steps, days[n-1].dayResult)
		}
		line := "the first version"
		if n > 0 {
			line = fmt.Sprintf("day %d, %s", n, days[n-1].What)
		}
		got, err := u.addDay(ctx, filepath.Join(work, "days-"), tree.path)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		for i := range r.Ways {
			bytes, ok := got[r.Ways[i].Name]
			if n > 0 && ok {
				r.Ways[i].Days = append(r.Ways[i].Days, bytes)
			}
			if ok {
				line += fmt.Sprintf("; %s %.2f MB", r.Ways[i].Name, mega(bytes))
			}
		}
		u.say("%s", line)
		if err := u.save(r); err != nil {
			return err
		}
	}
	return nil
}

// addDay keeps a version in each of the daily ways, all at the same time.
func (u *update) addDay(ctx context.Context, prefix, tree string) (map[string]int64, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	got := map[string]int64{}
	for _, way := range updateWays(&u.lab) {
		if !way.daily {
			continue
		}
		wg.Go(func() {
			bytes, err := way.add(ctx, prefix+way.name, tree)
			mu.Lock()
			defer mu.Unlock()
			if got[way.name] = bytes; err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", way.name, err))
			}
		})
	}
	wg.Wait()
	return got, failed
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
