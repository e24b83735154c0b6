package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/store"
)

// writePage writes the page about images from what was measured.
func (u *update) writePage() error {
	r, err := readBeside[updateResult](filepath.Join(u.dir, "x"), "update.json")
	if err != nil {
		return err
	}
	if r == nil || len(r.Ways) == 0 {
		return errors.New("there is no update.json: run `make bench-update` first")
	}
	text := imagesHead + r.text() + imagesFoot
	return store.WriteFile(u.page, []byte(text), 0o644)
}

const imagesHead = `# Benchmarks of images

What a version of an image costs to keep and to make, beside what else does it. This page is written by ` + "`pando-lab update --page`" + `
from what ` + "`make bench-update`" + ` has measured; the figures are not edited. How long builds take is in [benchmarks-build.md](benchmarks-build.md).

`

const imagesFoot = `
## To measure it again

As root:

    make bench-storm           # before it, if the boot pack is to be measured: it records boots
    make bench-update          # an hour on a small machine: some thirty builds
    build/bin/pando-lab update --page docs/benchmarks-images.md
`

// text is the part about updates.
func (r *updateResult) text() string {
	updates := 0
	for _, s := range r.Steps {
		if s.Update {
			updates++
		}
	}
	return fmt.Sprintf(`## Updates

The tree is Debian 12 as it was at a point release, a small server with what a laboratory installs, %.0f MB. *All at once* is everything that
Debian has had newer since, without the kernel: %d binary packages. It is more than a night brings, and such an image is what
the aim of 38 %% is of. The packages are named below.

*Daily* are %d versions, each made of the one before: Debian's archive of old days cannot be had everywhere, so it is no copy of %d days
that were, but the same updates in steps, one source package a day, in order of their names (%d days); on the others an administrator edits
a file of configuration or installs a small program. The kernel stays, as it does between its own updates.

What is counted: for Pando the objects that no version before has, index included; for casync its chunks and index, of the tree, as it is usually
used; squashfs is written, and sent, whole. All three compress by zstd; casync and Pando at its usual level 3, mksquashfs at its own 15.
mksquashfs is not run each day: what it would write is a whole image each day.

`, mega(r.Tree), len(r.Packages), len(r.Steps), len(r.Steps), updates) + r.table() + r.targetsText() + r.Pack.section() + r.stepsText() +
		"\nUpdated at once, without Linux " + r.Kernel + ": " + strings.Join(r.Packages, ", ") + ".\n\n"
}

// table is what each way had to write.
func (r *updateResult) table() string {
	head := row{
		"what",
		"first version, MB",
		"all at once, MB",
		"of the first",
		fmt.Sprintf("%d daily versions, MB", len(r.Steps)),
		"of the first",
		"median update of one package, MB",
		"of the first",
	}
	rows := []row{head}
	for _, w := range r.Ways {
		x := row{
			w.Name,
			fmt.Sprintf("%.1f", mega(w.Whole)),
			fmt.Sprintf("%.1f", mega(w.Update)),
			w.part(w.Update),
			"",
			"",
			"",
			"",
		}
		if len(w.Days) > 0 {
			one := r.oneUpdate(w)
			x[4], x[5] = fmt.Sprintf("%.1f", mega(total(w.Days))), w.part(total(w.Days))
			x[6], x[7] = fmt.Sprintf("%.2f", mega(one[len(one)/2])), w.part(one[len(one)/2])
		}
		if w.Name == wholeName {
			each := int64(len(r.Steps)) * w.Update
			x[4], x[5], x[6], x[7] = fmt.Sprintf(
				"%.0f (each whole)",
				mega(each),
			), w.part(
				each,
			), fmt.Sprintf(
				"%.1f",
				mega(w.Update),
			), w.part(
				w.Update,
			)
		}
		rows = append(rows, x)
	}
	return markdown(rows)
}

func total(of []int64) (n int64) {
	for _, x := range of {
		n += x
	}
	return n
}

// part is a share of the way's first version.
func (w wayResult) part(n int64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(w.Whole, 1)))
}

// oneUpdate are the bytes of those days on which one source package was updated, the smallest first.
func (r *updateResult) oneUpdate(w wayResult) (out []int64) {
	for i, s := range r.Steps {
		if s.Update && i < len(w.Days) {
			out = append(out, w.Days[i])
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		out = []int64{0}
	}
	return out
}

// targetsText says what was aimed at.
func (r *updateResult) targetsText() string {
	pando := r.Ways[0]
	one := r.oneUpdate(pando)
	share := func(n int64) float64 { return float64(n) / float64(max(pando.Whole, 1)) }
	all := r.target()
	return "\n" + markdown(targetRows(
		all,
		target{
			"bytes that are new in an update of one source package, the median, to the compressed image",
			mostNewOne,
			share(one[len(one)/2]),
			len(pando.Days) > 0,
		},
		target{"the same, the largest of them", mostNewOne, share(one[len(one)-1]), len(pando.Days) > 0},
	))
}

// stepsText are the days, the dearest first, with what each way had to write.
func (r *updateResult) stepsText() string {
	var daily []wayResult
	head := row{"day", "what", "binary packages"}
	for _, w := range r.Ways {
		if len(w.Days) == len(r.Steps) {
			daily = append(daily, w)
			head = append(head, w.Name+", MB")
		}
	}
	if len(daily) == 0 {
		return ""
	}
	order := make([]int, len(r.Steps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(daily[0].Days[b], daily[0].Days[a]) })
	rows := []row{head}
	for _, i := range order {
		x := row{fmt.Sprint(i + 1), r.Steps[i].What, fmt.Sprint(len(r.Steps[i].Packages))}
		for _, w := range daily {
			x = append(x, fmt.Sprintf("%.2f", mega(w.Days[i])))
		}
		rows = append(rows, x)
	}
	return "\nThe days, the dearest first:\n\n" + markdown(rows)
}
