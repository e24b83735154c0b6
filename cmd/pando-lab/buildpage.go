package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"pando/internal/store"
)

// writePage writes the page about builds from what was measured.
func (b *buildBench) writePage() error {
	r, err := readBeside[buildResult](filepath.Join(b.dir, "x"), "build.json")
	if err != nil {
		return err
	}
	if r == nil || r.count() == 0 {
		return errors.New("there is no build.json in " + b.dir + ": run `make bench-build` first")
	}
	return store.WriteFile(b.page, []byte(buildHead+r.text()+buildFoot), 0o644)
}

const buildHead = `# Benchmarks of builds

How long it takes to make of a tree what machines can boot, beside what else is made of trees. This page is written by
` + "`pando-lab build --page` from what `make bench-build`" + ` has measured; the figures are not edited. What versions cost to keep is in
[benchmarks-images.md](benchmarks-images.md).

`

const buildFoot = `
## To measure it again

As root, on an idle machine; it takes a quarter of an hour:

    make bench-build
    build/bin/pando-lab build --page docs/benchmarks-build.md
`

// text is what was measured.
func (r *buildResult) text() string {
	return fmt.Sprintf(
		`A tree of %.0f MB in %d files, in the page cache, made into what is kept: of Pando a version that is stored, signed and durable, with
the drivers of every usual NIC packed for the kernel, which the others do not do; of mksquashfs a file; of tar a stream through gzip
or zstd; of Docker the stream of `+"`docker save`"+` through gzip. %sMedians of %d runs, in turns, on %d processors, %s. *Again*: one file was
changed. Memory is that of the process with most of it; a ratio in brackets is to Pando's.

`,
		mega(r.Bytes),
		r.Files,
		r.dockerText(),
		r.count(),
		r.Processors,
		r.Date.Format("2006-01-02"),
	) + markdown(
		r.rows(),
	)
}

// dockerText says what was done with Docker before it was measured.
func (r *buildResult) dockerText() string {
	if !slices.Contains(r.ways(), dockerWay) {
		return "Docker was not measured. "
	}
	return fmt.Sprintf(
		"The tree was an image of Docker's already:\n`docker import` took %.1f s (again: %.1f s), which are not "+
			"in the table. ",
		r.median(dockerWay, false, buildRun.before),
		r.median(dockerWay, true, buildRun.before),
	)
}
