package store

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// SweepOptions says what Sweep keeps.
type SweepOptions struct {
	Hold   func(fleet.Digest) bool // versions to keep, whatever their age
	Before time.Time               // keep what was written at this time or later: a manifest that names it may follow
	DryRun bool                    // only report
}

// Swept is what Sweep removed, or would remove.
type Swept struct {
	Versions []fleet.Digest // in order of digest
	Objects  int            // objects that no version and no boot pack names
	Bytes    int64          // bytes of Objects
	Fresh    int            // objects that nothing names, but that are too new to be removed
	Kept     int64          // bytes of Fresh
}

// Sweep removes the versions that are not held, then the objects that nothing names. The lock must be held. The
// removal of manifests is durable before the first object is removed, so a manifest that can be read is always
// complete. If a version that stays cannot be read, Sweep keeps everything.
func (d *Dir) Sweep(ctx context.Context, opt SweepOptions) (s Swept, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("collect store: %w", err)
		}
	}()
	versions, err := d.Versions()
	if err != nil {
		return s, err
	}
	needed := map[chunk.ID]bool{}
	for _, v := range versions {
		if d.unheld(v, opt) {
			s.Versions = append(s.Versions, v)
			continue
		}
		if err := d.need(ctx, v, needed); err != nil {
			return Swept{}, fmt.Errorf(
				"version %s stays and cannot be read, so everything is kept: %w; `pando store check --repair` fixes it",
				v,
				err,
			)
		}
	}
	gone, err := d.unnamed(ctx, needed, opt.Before, &s)
	if err != nil || opt.DryRun {
		return s, err
	}
	return s, d.remove(ctx, s.Versions, gone)
}

// unheld reports whether a version may be removed.
func (d *Dir) unheld(v fleet.Digest, opt SweepOptions) bool {
	if opt.Hold(v) {
		return false
	}
	at := d.Written(v)
	return !at.IsZero() && at.Before(opt.Before)
}

func (d *Dir) need(ctx context.Context, v fleet.Digest, needed map[chunk.ID]bool) error {
	if err := d.Uses(ctx, v, func(u Use) { needed[u.ID] = true }); err != nil {
		return err
	}
	return d.PackUses(ctx, v, func(id chunk.ID) { needed[id] = true })
}

// unnamed lists the objects that are not needed and old enough.
func (d *Dir) unnamed(
	ctx context.Context,
	needed map[chunk.ID]bool,
	before time.Time,
	s *Swept,
) (gone []chunk.ID, err error) {
	err = d.eachFile(ctx, func(f objectFile) error {
		switch {
		case !f.ok, needed[f.id]: // Check reports files that are no objects
		case !f.modified.Before(before):
			s.Fresh++
			s.Kept += f.size
		default:
			s.Objects++
			s.Bytes += f.size
			gone = append(gone, f.id)
		}
		return nil
	})
	return gone, err
}

// EachObject calls each with every object and its size in bytes.
func (d *Dir) EachObject(ctx context.Context, each func(id chunk.ID, size int64)) error {
	err := d.eachFile(ctx, func(f objectFile) error {
		if f.ok {
			each(f.id, f.size)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	return nil
}

// remove removes versions, then objects.
func (d *Dir) remove(ctx context.Context, versions []fleet.Digest, objects []chunk.ID) error {
	for _, v := range versions {
		if err := d.removeFile(d.ManifestPath(v)); err != nil {
			return err
		}
	}
	if len(versions) > 0 { // a power cut must not bring back a manifest whose objects were removed
		if err := d.disk.Sync(d.manifests()); err != nil {
			return err
		}
	}
	if err := d.removeSidecars(); err != nil {
		return err
	}
	for part := range slices.Chunk(objects, removeMost) {
		if err := d.removeObjects(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}

// removeMost is how many objects a bucket removes with one request.
const removeMost = 1000

// removeSidecars removes sidecars without a manifest, including those that a killed writer left.
func (d *Dir) removeSidecars() error {
	files, err := d.manifestFiles()
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, f := range files {
		has[f] = true
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		digest, _, _ := strings.Cut(name, ".")
		if _, err := fleet.ParseDigest("sha256:" + digest); err != nil || has[digest+manifestSuffix] {
			continue
		}
		if err := d.removeFile(filepath.Join(d.manifests(), name)); err != nil {
			return err
		}
	}
	return nil
}
