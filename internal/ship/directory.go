package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/store"
)

// Directory is a store in a directory, for example on a USB stick. A file in it lists the names of its images.
type Directory struct {
	store *store.Dir
	mu    sync.Mutex // held while writing
}

// NamesFile is the file with the names of a directory's images: tags and their versions, by image.
const NamesFile = "images.json"

// OpenDirectory opens a directory. If create is set, it creates a missing one.
func OpenDirectory(path string, create bool) (*Directory, error) {
	if !create {
		if _, err := os.Stat(filepath.Join(path, "manifests")); err != nil {
			return nil, fmt.Errorf("no images in %s: %w", path, err)
		}
	}
	d, err := store.OpenDir(path)
	return &Directory{store: d}, err
}

// Name returns the path.
func (d *Directory) Name() string { return d.store.Path() }

// Find looks up a reference in NamesFile.
func (d *Directory) Find(_ context.Context, ref fleet.Ref) (fleet.Digest, error) {
	name, tag, digest, err := ref.Split()
	if err != nil {
		return "", err
	}
	names, err := d.names()
	if err != nil {
		return "", err
	}
	if v := names[name][tag]; v != "" {
		return v, nil
	}
	found, err := beginning(ref, digest, slices.Collect(maps.Values(names[name])))
	if found != "" || err != nil {
		return found, err
	}
	if tags := names[name]; len(tags) > 0 {
		return "", noVersion(ref, name, slices.Sorted(maps.Keys(tags)), d.Name())
	}
	return "", api.NewError(api.NotFound, fmt.Sprintf("image %s: not found in %s", ref, d.Name()),
		"its file "+NamesFile+" says what there is; "+name+"@sha256:... names a version by its digest")
}

func (d *Directory) names() (map[string]map[string]fleet.Digest, error) {
	names := map[string]map[string]fleet.Digest{}
	b, err := os.ReadFile(filepath.Join(d.Name(), NamesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &names)
	}
	if err != nil {
		return nil, fmt.Errorf("names of images in %s: %w", d.Name(), err)
	}
	return names, nil
}

// StoredVersion reads a version without its objects.
func (d *Directory) StoredVersion(_ context.Context, digest fleet.Digest) (api.StoredVersion, error) {
	v, err := d.store.GetVersion(digest)
	if err != nil {
		return api.StoredVersion{}, err
	}
	packs, err := d.store.Packs(digest)
	return api.StoredVersion{Manifest: v.Manifest, Signature: v.Signature, Provenance: v.Provenance, Packs: packs}, err
}

// Object reads an object and verifies it.
func (d *Directory) Object(ctx context.Context, id chunk.ID) ([]byte, error) {
	return d.store.Get(ctx, id)
}

// Accepts accepts every version: a directory has no keys.
func (d *Directory) Accepts(context.Context, api.StoredVersion) error { return nil }

// Missing compares names and sizes, not bytes.
func (d *Directory) Missing(ctx context.Context, objects []api.ObjectSize) (out []api.ObjectSize, err error) {
	for _, o := range objects {
		if size, ok := d.store.Stat(o.ID); !ok || size != o.Size {
			out = append(out, o)
		}
	}
	return out, ctx.Err()
}

// AddObjects stores objects durably.
func (d *Directory) AddObjects(ctx context.Context, objects [][]byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	unlock, err := d.store.Lock(ctx, "image push")
	if err != nil {
		return err
	}
	defer unlock()
	w := d.store.NewWriter()
	defer w.Close()
	for _, o := range objects {
		if _, _, err := w.Put(ctx, o); err != nil {
			return err
		}
	}
	return w.Sync(ctx)
}

// Publish writes the version, then its names.
func (d *Directory) Publish(ctx context.Context, v api.StoredVersion, name string, tags []string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	unlock, err := d.store.Lock(ctx, "image push")
	if err != nil {
		return nil, err
	}
	defer unlock()
	digest, err := d.store.PutVersion(
		store.Version{Manifest: v.Manifest, Signature: v.Signature, Provenance: v.Provenance},
	)
	if err != nil {
		return nil, err
	}
	for _, p := range v.Packs {
		if err := d.store.PutPack(digest, p); err != nil {
			return nil, err
		}
	}
	return nil, d.rename(digest, name, tags)
}

func (d *Directory) rename(v fleet.Digest, name string, tags []string) error {
	names, err := d.names()
	if err != nil {
		return err
	}
	if names[name] == nil {
		names[name] = map[string]fleet.Digest{}
	}
	for _, t := range tags {
		names[name][t] = v
	}
	b, err := json.MarshalIndent(names, "", "  ")
	if err != nil {
		return err
	}
	return d.store.PutBeside(NamesFile, append(b, '\n'))
}
