package updates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pando/internal/bench"
	"pando/internal/build"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/store"
)

// packResult is how much of a boot pack changes by all updates at once, in bytes on the wire.
type packResult struct {
	Image  string `json:"image"` // image whose recorded boots say, by path, what a boot of the tree reads
	First  int64  `json:"first"`
	Second int64  `json:"second"`
	New    int64  `json:"new"`    // pieces of the second pack that the first one lacks
	Cut    int64  `json:"cut"`    // the same if the second pack keeps no piece of the first
	Whole  int64  `json:"whole"`  // size of the second pack in that case
	Unused int64  `json:"unused"` // unneeded bytes in the second pack, before compression
}

// bootsOf is the part of a storm's result that names the image whose boots were recorded.
type bootsOf struct {
	Image   string `json:"image"`
	Version string `json:"version"`
}

// orderedBoots has what recorded boots of a server read, in order, and the map of their root.
type orderedBoots struct {
	image string
	order packer.Order
	root  *imagefs.Map
}

// updatePack makes the boot packs of the first version and of the one with all updates, as a server does.
func (u *Updates) updatePack(ctx context.Context, r *updateResult) error {
	boots, err := u.recordedBoots(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(u.work, "packs")
	defer os.RemoveAll(dir)
	var v [2]packVersion
	for i, tree := range []string{"tree", "second"} {
		if v[i], err = u.packVersion(ctx, dir, u.tree(tree).path); err != nil {
			return err
		}
	}
	x := packResult{Image: boots.image}
	order := packer.CarryOver(boots.order, boots.root, v[0].root)
	first, err := v[0].pack(ctx, order, nil)
	if err != nil {
		return err
	}
	order = packer.CarryOver(packer.OrderOf(first), v[0].root, v[1].root)
	cut, err := v[1].pack(ctx, order, nil)
	if err != nil {
		return err
	}
	kept, err := v[1].pack(ctx, order, &first)
	if err != nil {
		return err
	}
	x.First, x.Second, x.Whole = first.StoredSize(), kept.StoredSize(), cut.StoredSize()
	x.New, x.Cut, x.Unused = newPieces(kept, first), newPieces(cut, first), unusedBytes(kept)
	r.Pack = &x
	u.Say("%s", x.text())
	return nil
}

// haveBoots reports whether there are recorded boots.
func (u *Updates) haveBoots() bool {
	_, err := os.Stat(filepath.Join(u.boots, "storm.json"))
	return err == nil
}

// recordedBoots reads the boots that `make bench-storm` has recorded.
func (u *Updates) recordedBoots(ctx context.Context) (b orderedBoots, err error) {
	storm, err := bench.ReadJSON[bootsOf](filepath.Join(u.boots, "storm.json"))
	if err == nil && storm == nil {
		err = errors.New("no boot was recorded there: run `make bench-storm`, or name a directory with --boots")
	}
	if err != nil {
		return b, fmt.Errorf("recorded boots in %s: %w", u.boots, err)
	}
	keys, err := identity.Open(filepath.Join(u.boots, "data", "keys"))
	if err != nil {
		return b, err
	}
	v, err := openPackVersion(ctx, filepath.Join(u.boots, "data", "store"), keys, fleet.Digest(storm.Version))
	if err != nil {
		return b, err
	}
	records, err := v.store.Packs(v.version)
	if err != nil {
		return b, err
	}
	record, ok := bootpack.Find(records, "")
	if !ok {
		return b, fmt.Errorf("version %s in %s has no boot pack", v.version.Short(), u.boots)
	}
	p, err := v.load(ctx, record)
	return orderedBoots{storm.Image, packer.OrderOf(p), v.root}, err
}

// packVersion is a version that gets boot packs.
type packVersion struct {
	store    *store.Dir
	keys     identity.Keys
	version  fleet.Digest
	manifest image.Manifest
	root     *imagefs.Map
}

func (u *Updates) packVersion(ctx context.Context, dir, tree string) (packVersion, error) {
	r, err := bench.Build(ctx, dir, "", func(o *build.Options) { o.Recipe, o.FromDir = nil, tree })
	if err != nil {
		return packVersion{}, err
	}
	keys, err := identity.Open(filepath.Join(dir, "keys"))
	if err != nil {
		return packVersion{}, err
	}
	return openPackVersion(ctx, filepath.Join(dir, "store"), keys, r.Version)
}

func openPackVersion(
	ctx context.Context,
	dir string,
	keys identity.Keys,
	version fleet.Digest,
) (p packVersion, err error) {
	p.keys, p.version = keys, version
	if p.store, err = store.OpenDir(dir); err != nil {
		return p, err
	}
	v, err := p.store.GetVersion(version)
	if err != nil {
		return p, err
	}
	if p.manifest, err = image.Verify(v.Manifest, v.Signature, keys.SitePublic()); err != nil {
		return p, err
	}
	p.root, err = imagefs.ReadMap(ctx, p.store, p.manifest)
	return p, err
}

// pack makes a boot pack. It keeps pieces of the earlier pack.
func (p packVersion) pack(ctx context.Context, order packer.Order, before *bootpack.Map) (bootpack.Map, error) {
	r, err := packer.Make(
		ctx,
		packer.Options{
			Store:    p.store,
			Keys:     p.keys.Ring.Signers(),
			Version:  p.version,
			Manifest: p.manifest,
			Order:    order,
			Before:   before,
		},
	)
	if err != nil {
		return bootpack.Map{}, err
	}
	return p.load(ctx, r)
}

func (p packVersion) load(ctx context.Context, r bootpack.Record) (bootpack.Map, error) {
	data, err := p.store.Get(ctx, r.Object)
	if err != nil {
		return bootpack.Map{}, err
	}
	return bootpack.Verify(data, []byte(r.Signature), p.version, p.keys.SitePublic())
}

// newPieces returns the bytes on the wire of a pack's pieces that another pack lacks.
func newPieces(p, has bootpack.Map) (n int64) {
	there := map[chunk.ID]bool{}
	for _, e := range has.Pieces {
		there[e.ID] = true
	}
	for _, e := range p.Pieces {
		if !there[e.ID] {
			there[e.ID] = true
			n += int64(e.StoredSize)
		}
	}
	return n
}

func unusedBytes(p bootpack.Map) (n int64) {
	for _, e := range p.Extents {
		if e.Unused() {
			n += int64(e.Blocks) * chunk.BlockSize
		}
	}
	return n
}

// text returns the results as a table.
func (x *packResult) text() string {
	share := func(n int64) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(x.Second)) }
	return "\n" + bench.Table([]bench.Row{
		{"boot pack after all updates at once", "MB on the wire", "of it"},
		{"all of it; what a node fetches that has nothing", fmt.Sprintf("%.2f", bench.MB(x.Second)), ""},
		{
			"what a node fetches that has the pack of the first version",
			fmt.Sprintf("%.2f", bench.MB(x.New)),
			share(x.New),
		},
		{"the same, if no piece of the first pack were kept", fmt.Sprintf("%.2f", bench.MB(x.Cut)), share(x.Cut)},
		{
			"what the kept pieces cost a node that has nothing",
			fmt.Sprintf("%.2f", bench.MB(x.Second-x.Whole)),
			share(x.Second - x.Whole),
		},
	})
}
