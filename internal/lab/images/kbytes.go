package images

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"pando/internal/bench"
	"pando/internal/build"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/store"
)

// K measures the size of kernel+initrd (K) of images, in bytes.
type K struct {
	bench.Place
	from []string // data directories with images; none: the images are built
}

// NewK parses the arguments of `pando-lab k`.
func NewK(args []string, stdout, stderr io.Writer) (*K, error) {
	k := &K{Place: bench.Place{Out: stdout, Err: stderr}}
	f := flag.NewFlagSet("pando-lab k", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&k.Dir, "dir", "build/storm", "where the result is written")
	f.Func(
		"data",
		"data directories with images of debian:bookworm and debian:trixie, with commas (default: they are built)",
		bench.ListOf(&k.from),
	)
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	err := k.Locate(f.Args())
	if err != nil {
		fmt.Fprintln(stderr, "pando-lab k:", err)
	}
	return k, err
}

// kResult is what was measured.
type kResult struct {
	Date   time.Time          `json:"date"`
	Images []bench.KernelSize `json:"images"`
}

// Measure runs `pando-lab k`.
func (k *K) Measure(ctx context.Context) error {
	r := kResult{Date: time.Now().UTC().Truncate(time.Second)}
	agent, err := bench.AgentSize(ctx, k.Bin)
	if err != nil {
		return err
	}
	if len(k.from) == 0 {
		if err := k.build(ctx); err != nil {
			return err
		}
	}
	for _, data := range k.from {
		all, err := kOfAll(data, agent)
		if err != nil {
			return fmt.Errorf("%s: %w", data, err)
		}
		r.Images = append(r.Images, all...)
	}
	k.Say("%s", bench.Table(kRows(r.Images)))
	if err := os.MkdirAll(k.Dir, 0o755); err != nil {
		return err
	}
	return bench.SaveJSON(filepath.Join(k.Dir, "k.json"), r)
}

// build builds the images whose K has a limit, in one data directory. Present images are built again, from the
// archive's present packages.
func (k *K) build(ctx context.Context) error {
	work := filepath.Join(k.Dir, "k")
	for _, x := range kTargets {
		if _, err := bench.Build(ctx, work, x.recipe, func(*build.Options) {}); err != nil {
			return err
		}
	}
	k.from = []string{work}
	return nil
}

// kOfAll measures, for each recipe with a limit, the newest image of a data directory.
func kOfAll(data string, agent int64) ([]bench.KernelSize, error) {
	keys, err := identity.Open(filepath.Join(data, "keys"))
	if err != nil {
		return nil, err
	}
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return nil, err
	}
	versions, err := dir.Versions()
	if err != nil {
		return nil, err
	}
	newest := map[string]time.Time{}
	sizes := map[string]bench.KernelSize{}
	for _, d := range versions {
		v, err := dir.GetVersion(d)
		if err != nil {
			return nil, err
		}
		m, err := image.Verify(v.Manifest, v.Signature, keys.SitePublic())
		if err != nil {
			return nil, err
		}
		p, err := image.DecodeProvenance(v.Provenance)
		if err != nil {
			return nil, err
		}
		if p.Built.After(newest[p.Recipe]) {
			newest[p.Recipe], sizes[p.Recipe] = p.Built, bench.KernelSizeOf(m, string(d), agent)
		}
	}
	var out []bench.KernelSize
	for _, x := range kTargets {
		if k, ok := sizes[x.recipe]; ok {
			k.Recipe = x.recipe
			out = append(out, k)
		}
	}
	return out, nil
}
