package updates

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"pando/internal/bench"
	"pando/internal/image"
)

// Updates measures what changes of an image cost. It installs a tree with the packages of a Debian release's last point
// release and updates it day by day. It counts the bytes that are new for Pando and for other ways to keep or send
// trees.
type Updates struct {
	bench.Place
	archive string // address of Debian's archive
	boots   string // directory with recorded boots of a server
	only    bool   // measure boot packs and nothing else
	days    int
	atMost  time.Duration // 0: until it is done
	work    string        // trees and versions that are measured
}

const updateSuite = "bookworm"

// updateRecipe is the tree of the measurement: a small server with what a laboratory installs, so that there are enough
// packages of which Debian has newer ones.
const updateRecipe = `from: debian:` + updateSuite + `
mirrors: [deb %s ` + updateSuite + ` main]
packages: [curl, git, python3, rsync, bind9-dnsutils, sudo, nginx-light, php8.2-cli, nodejs, poppler-utils, ghostscript,
  libarchive-tools, xsltproc, sqlite3, libnss3-tools, xz-utils, openssl, wget]
`

// New parses the arguments of `pando-lab update`.
func New(args []string, stdout, stderr io.Writer) (*Updates, error) {
	u := &Updates{Place: bench.Place{Out: stdout, Err: stderr}}
	f := flag.NewFlagSet("pando-lab update", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(
		&u.Dir,
		"dir",
		"build/storm",
		"where the result is written",
	)
	f.StringVar(
		&u.archive,
		"archive",
		"",
		"address of an archive that has "+updateSuite+" without later updates (default: this machine's own)",
	)
	f.DurationVar(
		&u.atMost,
		"for",
		0,
		"stop after so long, between two versions; the same command goes on (default: when it is done)",
	)
	f.StringVar(
		&u.boots,
		"boots",
		"build/storm",
		"where make bench-storm has recorded boots of a server; they say what of the tree a boot reads",
	)
	f.BoolVar(&u.only, "packs", false, "measure only what of a boot pack is new, and add it to what update.json has")
	f.IntVar(&u.days, "days", 30, "how many daily versions are made")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := u.Locate(f.Args())
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
	Pack  *packResult `json:"pack,omitempty"`

	Plan  []plannedDay `json:"plan,omitempty"`  // of all days
	Begun bool         `json:"begun,omitempty"` // the daily versions have their first one
	Busy  bool         `json:"busy,omitempty"`  // something was begun and not ended
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

// Measure runs `pando-lab update`.
func (u *Updates) Measure(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: packages are installed")
	}
	begin := time.Now()
	if err := os.MkdirAll(u.Dir, 0o755); err != nil {
		return err
	}
	if !u.haveBoots() {
		u.Say(
			"No boots are recorded in %s (make bench-storm records them): what of a boot pack is new is not measured.",
			u.boots,
		)
	}
	u.work = filepath.Join(u.Dir, "update-run")
	if u.only {
		return u.addPack(ctx)
	}
	r, err := u.goOn(ctx)
	for more := true; more && err == nil; {
		if u.atMost > 0 && time.Since(begin) > u.atMost {
			u.Say("It is not done; the same command goes on from here.")
			return nil
		}
		more, err = u.next(ctx, r)
	}
	if err != nil {
		return err
	}
	u.Say("\n%s", r.table())
	return os.RemoveAll(u.work)
}

// addPack measures boot packs beside what was measured before.
func (u *Updates) addPack(ctx context.Context) error {
	before, err := bench.ReadJSON[updateResult](filepath.Join(u.Dir, "update.json"))
	if err != nil {
		return err
	}
	r, err := u.goOn(ctx)
	if err == nil {
		err = u.updatePack(ctx, r)
	}
	if err != nil {
		return err
	}
	if before == nil || !slices.Equal(before.Packages, r.Packages) {
		return u.save(r)
	}
	before.Pack = r.Pack
	return u.publish(before)
}

// goOn is what an earlier run has measured so far, or a beginning: the tree, and one with all updates.
func (u *Updates) goOn(ctx context.Context) (*updateResult, error) {
	r, err := bench.ReadJSON[updateResult](filepath.Join(u.work, "update.json"))
	if err == nil && r != nil && !r.Busy {
		return r, nil
	}
	base, err := u.base(ctx)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(u.work), os.MkdirAll(u.work, 0o755)); err != nil {
		return nil, err
	}
	first, second := u.tree("tree"), u.tree("second")
	if err := errors.Join(bench.CopyTree(ctx, base, first.path), bench.CopyTree(ctx, base, second.path)); err != nil {
		return nil, err
	}
	r = &updateResult{Date: time.Now().UTC().Truncate(time.Second), Kernel: first.kernel()}
	if r.Tree, _, err = bench.SizeOfTree(first.path); err != nil {
		return nil, err
	}
	was, err := second.packages(ctx)
	if err != nil {
		return nil, err
	}
	updates, err := second.updates(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range updates {
		if err := second.install(ctx, true, p.packages...); err != nil {
			return nil, err
		}
	}
	is, err := second.packages(ctx)
	if err != nil {
		return nil, err
	}
	r.Packages, r.Plan = changed(was, is), planDays(updates, u.days)
	u.Say("%d packages are newer: %s", len(r.Packages), strings.Join(r.Packages, ", "))
	return r, u.save(r)
}

func (u *Updates) tree(name string) updateTree {
	return updateTree{path: filepath.Join(u.work, name), cache: filepath.Join(u.Dir, "update-debs")}
}

// next measures one thing more, and tells whether there are others. What it was in the middle of when it was killed
// is not known afterwards, so that all begins anew then.
func (u *Updates) next(ctx context.Context, r *updateResult) (more bool, err error) {
	r.Busy = true
	if err := u.save(r); err != nil {
		return false, err
	}
	ways := updateWays()
	switch n := len(r.Ways); {
	case n < len(ways):
		err = u.atOnce(ctx, ways[n], r)
	case r.Pack == nil && !r.Begun && u.haveBoots():
		err = u.updatePack(ctx, r)
	default:
		err = u.day(ctx, r)
	}
	if err != nil {
		return false, err
	}
	r.Busy = false
	return len(r.Ways) < len(ways) || len(r.Steps) < len(r.Plan), u.save(r)
}

// atOnce measures the first version and one with all updates, in one way.
func (u *Updates) atOnce(ctx context.Context, way updateWay, r *updateResult) (err error) {
	dir := filepath.Join(u.work, "once")
	x := wayResult{Name: way.name}
	if x.Whole, err = way.add(ctx, dir, u.tree("tree").path); err == nil {
		x.Update, err = way.add(ctx, dir, u.tree("second").path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", way.name, err)
	}
	r.Ways = append(r.Ways, x)
	r.Image, r.New = r.Ways[0].Whole, r.Ways[0].Update
	u.Say(
		"%-28s %7.1f MB, then %6.1f MB new, %.3f",
		x.Name,
		bench.MB(x.Whole),
		bench.MB(x.Update),
		float64(x.Update)/float64(x.Whole),
	)
	return os.RemoveAll(dir)
}

// day measures the next daily version; before the first of them that which it is made of.
func (u *Updates) day(ctx context.Context, r *updateResult) error {
	tree, line := u.tree("tree"), "the first version"
	if r.Begun {
		d := r.Plan[len(r.Steps)]
		was, err := tree.packages(ctx)
		if err == nil {
			err = tree.do(ctx, d)
		}
		if err != nil {
			return fmt.Errorf("day %d, %s: %w", len(r.Steps)+1, d.What, err)
		}
		is, err := tree.packages(ctx)
		if err != nil {
			return err
		}
		r.Steps = append(r.Steps, dayResult{What: d.What, Packages: changed(was, is), Update: d.Update})
		line = fmt.Sprintf("day %d, %s", len(r.Steps), d.What)
	}
	got, err := u.addDay(ctx, filepath.Join(u.work, "days-"), tree.path)
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	for i, w := range r.Ways {
		bytes, ok := got[w.Name]
		if ok && r.Begun {
			r.Ways[i].Days = append(w.Days, bytes)
		}
		if ok {
			line += fmt.Sprintf("; %s %.2f MB", w.Name, bench.MB(bytes))
		}
	}
	r.Begun = true
	u.Say("%s", line)
	return nil
}

// save writes what was measured so far, for the next run and for pages.
func (u *Updates) save(r *updateResult) error {
	if err := bench.SaveJSON(filepath.Join(u.work, "update.json"), r); err != nil {
		return err
	}
	return u.publish(r)
}

// publish writes it for pages.
func (u *Updates) publish(r *updateResult) error {
	public := *r
	public.Plan, public.Busy, public.Begun = nil, false, false
	return bench.SaveJSON(filepath.Join(u.Dir, "update.json"), public)
}

// addDay keeps a version in each of the daily ways, all at the same time.
func (u *Updates) addDay(ctx context.Context, prefix, tree string) (map[string]int64, error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	got := map[string]int64{}
	for _, way := range updateWays() {
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
