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
	archive string // URL of Debian's archive
	boots   string // directory with recorded boots of a server
	only    bool   // measure only boot packs
	days    int
	atMost  time.Duration // time limit; 0: none
	work    string        // measured trees and versions
}

const updateSuite = "bookworm"

// updateRecipe is the recipe of the measured tree: a small server with programs of a laboratory, so that Debian has
// updates for enough packages.
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

// updateResult is what was measured; sizes are in bytes.
type updateResult struct {
	Date     time.Time `json:"date"`
	Packages []string  `json:"packages"` // packages that changed at once, each as name, old and new version
	Kernel   string    `json:"kernel"`   // release of the kernel, which does not change
	Image    int64     `json:"image"`    // objects of the root, compressed
	New      int64     `json:"new"`      // objects that the earlier version lacked

	Tree  int64       `json:"tree"`  // files, before compression
	Ways  []wayResult `json:"ways"`  // Pando's way is the first
	Steps []dayResult `json:"steps"` // the daily versions
	Pack  *packResult `json:"pack,omitempty"`

	Plan  []plannedDay `json:"plan,omitempty"`  // plan of all days
	Begun bool         `json:"begun,omitempty"` // the first of the daily versions exists
	Busy  bool         `json:"busy,omitempty"`  // a measurement was begun and has not ended
}

// wayResult is what one way of keeping trees had to write.
type wayResult struct {
	Name   string  `json:"name"`
	Whole  int64   `json:"whole"`  // size of the first version
	Update int64   `json:"update"` // all updates at once, after the first version
	Days   []int64 `json:"days"`   // each daily version, after the previous one; none: not measured daily
}

// dayResult is one daily version.
type dayResult struct {
	What     string   `json:"what"`
	Packages []string `json:"packages,omitempty"` // packages that changed
	Update   bool     `json:"update"`             // one source package of Debian's updates
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

// addPack adds boot packs to the results of an earlier measurement.
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

// goOn returns the results of an earlier, interrupted run. If there are none it makes the tree, and a second one with
// all updates.
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

// next makes one further measurement, and reports whether there are more. If the program is killed during one, the
// state of its directory is unknown, and the next run starts from the beginning.
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

// atOnce measures the first version, and one with all updates, in one way.
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

// day measures the next daily version. Before the first of them it measures the version that they are based on.
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

// save writes the results so far, for the next run and for pages.
func (u *Updates) save(r *updateResult) error {
	if err := bench.SaveJSON(filepath.Join(u.work, "update.json"), r); err != nil {
		return err
	}
	return u.publish(r)
}

// publish writes the results for pages.
func (u *Updates) publish(r *updateResult) error {
	public := *r
	public.Plan, public.Busy, public.Begun = nil, false, false
	return bench.SaveJSON(filepath.Join(u.Dir, "update.json"), public)
}

// addDay stores a version in each of the daily ways, all at the same time.
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

// changed lists the packages that have different versions in the two lists.
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
