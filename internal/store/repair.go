package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// RepairSource is another store from which missing files can be fetched. It is not trusted: objects and manifests are
// checked against their names, and manifests against their signatures.
type RepairSource interface {
	Origin
	// Version returns a manifest and its signature, unverified.
	Version(ctx context.Context, v fleet.Digest) (Version, error)
}

// repair fetches an object that is missing or broken.
func (c *checker) repair(ctx context.Context, v fleet.Digest, u Use, what string) error {
	was := "missing"
	if c.bad[u.ID] != "" {
		was = "broken: " + c.bad[u.ID]
	}
	for _, s := range c.From {
		got, err := s.Get(ctx, chunk.Request{ID: u.ID, Size: max(0, u.Size)})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			continue // if no source has it, the caller reports a problem
		}
		if err := c.dir.put(u.ID, got.Stored()); err != nil {
			return err
		}
		delete(c.bad, u.ID)
		c.good(u.ID, int64(len(got.Stored())))
		c.report.Fixed = append(c.report.Fixed, Problem{Version: v, Object: u.ID, Start: u.Start, Raw: u.Raw,
			Text: fmt.Sprintf("%s was %s; taken from %s", what, was, s.Name())})
		return nil
	}
	return nil
}

func (c *checker) fixed(v fleet.Digest, id chunk.ID, format string, args ...any) {
	c.report.Fixed = append(c.report.Fixed, Problem{Version: v, Object: id, Text: fmt.Sprintf(format, args...)})
}

// fetchVersion fetches a manifest that matches its name and has a trusted signature.
func (c *checker) fetchVersion(ctx context.Context, digest fleet.Digest) (v Version, from string, ok bool) {
	for _, s := range c.From {
		v, err := s.Version(ctx, digest)
		if err != nil || image.Version(v.Manifest) != digest {
			continue
		}
		if _, err := image.Verify(v.Manifest, v.Signature, c.Keys...); err != nil && len(c.Keys) > 0 {
			continue
		}
		return v, s.Name(), true
	}
	return Version{}, "", false
}

// put writes an object and replaces an existing one. The lock must be held.
func (d *Dir) put(id chunk.ID, stored []byte) error {
	if d.cache != nil {
		return d.cache.put(id, stored)
	}
	temporary, path := filepath.Join(d.incoming(), id.Name()), d.ObjectPath(id)
	err := d.disk.WriteFile(temporary, stored)
	if err == nil {
		err = d.disk.Sync(temporary)
	}
	if err == nil {
		err = d.rename(temporary, path)
	}
	if err == nil {
		err = d.disk.Sync(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write object %s: %w", id, explain(err, d.path))
	}
	return nil
}

// DirSource is a RepairSource that reads a store in another directory.
type DirSource struct{ *Dir }

// Name returns the directory.
func (b DirSource) Name() string { return b.path }

// Get reads an object.
func (b DirSource) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	stored, err := b.Dir.Get(ctx, r.ID)
	if err != nil {
		return chunk.Verified{}, err
	}
	return chunk.Check(r.ID, stored)
}

// Version reads a manifest.
func (b DirSource) Version(_ context.Context, v fleet.Digest) (Version, error) {
	return b.GetVersion(v)
}

// RemoteSource is a RepairSource that reads a store in a Remote.
type RemoteSource struct{ In Remote }

// Name returns the name of the Remote.
func (a RemoteSource) Name() string { return a.In.Name() }

// Get reads an object.
func (a RemoteSource) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	stored, err := readRemote(ctx, a.In, ObjectName(r.ID), max(r.Size, MaxObject))
	if err != nil {
		return chunk.Verified{}, err
	}
	return chunk.Check(r.ID, stored)
}

// Version reads a manifest and its signature.
func (a RemoteSource) Version(ctx context.Context, digest fleet.Digest) (v Version, err error) {
	v.Digest = digest
	name := manifestsPrefix + strings.TrimPrefix(string(digest), "sha256:")
	if v.Manifest, err = readRemote(ctx, a.In, name+manifestSuffix, maxManifest); err == nil {
		v.Signature, err = readRemote(ctx, a.In, name+signatureSuffix, maxManifest)
	}
	if err == nil {
		if v.Provenance, err = readRemote(ctx, a.In, name+provenanceSuffix, maxManifest); errors.Is(
			err,
			fs.ErrNotExist,
		) {
			err = nil
		}
	}
	return v, err
}

// readRemote reads a name with at most most bytes.
func readRemote(ctx context.Context, r Remote, name string, most int64) ([]byte, error) {
	in, err := r.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s in %s is too long", name, r.Name())
	}
	return b, err
}

// maxManifest bounds a manifest or signature that is fetched, in bytes. A manifest with every usual NIC has 20 KB.
const maxManifest = 4 << 20

// Version fetches a manifest and its signature from a Pando server. They are not verified.
func (h *HTTP) Version(ctx context.Context, digest fleet.Digest) (v Version, err error) {
	v.Digest = digest
	name := strings.TrimSuffix(h.URL, "/") + "/m/" + strings.TrimPrefix(string(digest), "sha256:")
	if v.Manifest, err = h.file(ctx, name); err == nil {
		v.Signature, err = h.file(ctx, name+signatureSuffix)
	}
	return v, err
}

func (h *HTTP) file(ctx context.Context, url string) (b []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err = checkStatus(resp.StatusCode); err == nil {
		b, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	}
	if err == nil && len(b) > maxManifest {
		err = errors.New("too long")
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	return b, nil
}
