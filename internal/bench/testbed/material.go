package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"pando/internal/bench"
	"pando/internal/blockdev"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/trace"
)

// Material is the image of a measurement, and what its boots read.
type Material struct {
	*bench.Image
	Pack     bootpack.Record
	BootSet  int64    // W: bytes on the wire of the boot pack that a boot needs until its end
	Booted   int64    // the same until booted, even if the boot ends at a later mark
	PackSize int64    // bytes of the whole boot pack
	Pieces   int      // number of pieces of BootSet
	Beyond   bool     // BootSet includes pieces after booted, so a node has it when it has the whole pack
	Boot     Script   // what a boot reads, and when
	want     [][]byte // the right bytes of each read
	Read     int64    // sum of the bytes of want
}

// Material prepares image, read traces and boot pack.
func (t *Testbed) Material(ctx context.Context) (*Material, error) {
	m, err := t.ImageMaterial(ctx)
	if err != nil {
		return nil, err
	}
	boots, err := t.recorded(ctx, m)
	if err != nil {
		return nil, err
	}
	m.Boot = NewScript(boots[0])
	if err := m.packed(ctx, t.Until, boots); err != nil {
		return nil, err
	}
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	t.Say(
		"Boot:   %d reads of %.1f MB in %.1f s (%d recorded); its boot pack has %.1f MB on the wire, W",
		len(m.want),
		bench.MB(m.Read),
		m.Boot.length.Seconds(),
		len(boots),
		bench.MB(m.BootSet),
	)
	return m, nil
}

// ImageMaterial prepares the image only; a rival's machine needs no more.
func (t *Testbed) ImageMaterial(ctx context.Context) (*Material, error) {
	m := &Material{Image: &bench.Image{Scratch: filepath.Join(t.Dir, "rivals")}}
	var err error
	if m.Version, err = t.version(ctx); err != nil {
		return nil, err
	}
	if m.Keys, err = identity.Open(filepath.Join(t.DataDir(), "keys")); err != nil {
		return nil, err
	}
	if m.Store, err = store.OpenDir(filepath.Join(t.DataDir(), "store")); err != nil {
		return nil, err
	}
	v, err := m.Store.GetVersion(m.Version)
	if err != nil {
		return nil, err
	}
	if m.Manifest, err = image.Verify(v.Manifest, v.Signature, m.Keys.SitePublic()); err != nil {
		return nil, err
	}
	agent, err := bench.AgentSize(ctx, t.Bin)
	if err != nil {
		return nil, err
	}
	k := bench.KernelSizeOf(m.Manifest, string(m.Version), agent)
	m.Kernel = &k
	t.Say("Image:  %s, version %s, a root of %.1f MB", t.Image, m.Version.Short(), bench.MB(m.Manifest.Root.Size))
	t.Say(
		"K:      %.1f MB with the drivers of every usual NIC, %.1f MB with those of one, %s",
		bench.MB(k.Every),
		bench.MB(k.Known),
		k.NIC,
	)
	return m, nil
}

// packed finds the boot pack of nodes without a hardware class. If there is none it makes one as the server would.
func (m *Material) packed(ctx context.Context, until trace.Stage, boots []packer.Recording) error {
	records, err := m.Store.Packs(m.Version)
	if err != nil {
		return err
	}
	var ok bool
	if m.Pack, ok = bootpack.Find(records, ""); !ok {
		m.Pack, err = packer.Make(
			ctx,
			packer.Options{Store: m.Store, Keys: m.Keys.Ring.Signers(), Version: m.Version, Manifest: m.Manifest,
				Order: packer.Merge(boots), Boots: len(boots)},
		)
		if err != nil {
			return err
		}
	}
	data, err := m.Store.Get(ctx, m.Pack.Object)
	if err != nil {
		return err
	}
	p, err := bootpack.Verify(data, []byte(m.Pack.Signature), m.Version, m.Keys.SitePublic())
	if err != nil {
		return err
	}
	m.PackSize = p.StoredSize()
	m.BootSet, m.Pieces = p.BootSet()
	m.Booted = m.BootSet
	if until != trace.Booted {
		m.BootSet, m.Pieces = readSet(p, m.Boot.reads)
		m.Beyond = true
	}
	return nil
}

// readSet returns the pieces of a pack that contain something that a boot reads: their bytes on the wire, and their
// number.
func readSet(p bootpack.Map, reads []trace.Read) (bytes int64, pieces int) {
	read := map[uint32]bool{}
	for _, r := range reads {
		for b := range r.Blocks {
			read[r.Start+b] = true
		}
	}
	last := -1 // the piece that was counted last
	for i, x := range p.Placed() {
		if i == last || x.Unused() {
			continue
		}
		for b := range x.Blocks {
			if read[x.Start+b] {
				bytes, pieces, last = bytes+int64(p.Pieces[i].StoredSize), pieces+1, i
				break
			}
		}
	}
	return bytes, pieces
}

// open reads the right bytes of the boot's reads from the store.
func (m *Material) open(ctx context.Context) error {
	dev, err := blockdev.Open(
		ctx,
		bench.DiskSource{Dir: m.Store},
		blockdev.Options{Index: m.Manifest.Root.Index, Size: m.Manifest.Root.Size},
	)
	if err != nil {
		return err
	}
	defer dev.Close()
	for _, r := range m.Boot.reads {
		if int64(r.End())*chunk.BlockSize > dev.Size() {
			return fmt.Errorf(
				"the read trace has block %d, the root of version %s ends before it: it is of another version",
				r.End()-1,
				m.Version.Short(),
			)
		}
		p := make([]byte, int(r.Blocks)*chunk.BlockSize)
		if err := dev.ReadAt(ctx, p, int64(r.Start)*chunk.BlockSize); err != nil {
			return err
		}
		m.want = append(m.want, p)
		m.Read += int64(len(p))
	}
	if len(m.want) == 0 {
		return errors.New("the read trace is empty")
	}
	return nil
}
