package objects

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/registry"
	"pando/internal/store"
)

// storedVersion answers GET /v1/store/versions/{digest}.
func (a *API) storedVersion(r *http.Request) (any, error) {
	digest, err := fleet.ParseDigest(r.PathValue("digest"))
	if err != nil {
		return nil, httpapi.Invalid(err)
	}
	v, err := a.store.GetVersion(digest)
	if err != nil {
		return nil, err
	}
	packs, err := a.store.Packs(digest)
	return api.StoredVersion{Manifest: v.Manifest, Signature: v.Signature, Provenance: v.Provenance, Packs: packs}, err
}

// storedObject answers GET /v1/store/objects/{id}: an object as the image port sends it, for operators who cannot reach
// that port.
func (a *API) storedObject(w http.ResponseWriter, r *http.Request) error {
	id, err := objectID(r.PathValue("id"))
	if err != nil {
		return err
	}
	f, err := a.store.Open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = io.Copy(w, f) // the client notices a short answer
	return nil
}

// missingObjects answers POST /v1/store/missing. Objects that are present count as written now, so that garbage
// collection keeps them until the version that names them arrives.
func (a *API) missingObjects(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.ObjectList](r)
	if err != nil {
		return nil, err
	}
	if len(req.Objects) > api.MaxObjectList {
		return nil, httpapi.BadRequest(
			fmt.Sprintf("%d objects in one request, at most %d", len(req.Objects), api.MaxObjectList),
			"",
		)
	}
	out := api.ObjectList{Objects: []api.ObjectSize{}}
	err = a.writing(r.Context(), func(w *store.Writer) error {
		for _, x := range req.Objects {
			there, err := w.Uses(r.Context(), x.ID, x.Size)
			if err != nil {
				return err
			}
			if !there {
				out.Objects = append(out.Objects, x)
			}
		}
		return nil
	})
	return out, err
}

// writing runs write while it holds the store's lock.
func (a *API) writing(ctx context.Context, write func(*store.Writer) error) error {
	if a.collector.registry.Relieve(ctx); a.collector.registry.FullDisk() != nil {
		return fmt.Errorf("upload: %w", registry.ErrFull)
	}
	unlock, err := a.store.Lock(ctx, "image push")
	if err != nil {
		return err
	}
	defer unlock()
	w := a.store.NewWriter()
	defer w.Close()
	if err := write(w); err != nil {
		return err
	}
	return w.Sync(ctx)
}

// addObjects answers POST /v1/store/objects. It reads the whole body before it locks the store, because the sender may
// be slow.
func (a *API) addObjects(w http.ResponseWriter, r *http.Request) error {
	in := http.MaxBytesReader(w, r.Body, api.MaxObject+api.MaxObjects)
	var objects [][]byte
	for {
		var length [4]byte
		if _, err := io.ReadFull(in, length[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return cutOff(err)
		}
		n := int64(binary.BigEndian.Uint32(length[:]))
		var b bytes.Buffer // it grows with the received bytes, not with the announced length
		if _, err := io.CopyN(&b, in, n); err != nil {
			return cutOff(err)
		}
		objects = append(objects, b.Bytes())
	}
	err := a.writing(r.Context(), func(w *store.Writer) error {
		for _, b := range objects {
			if _, _, err := w.Put(r.Context(), b); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func cutOff(err error) error {
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return err
	}
	return httpapi.BadRequest("objects: the body is cut off", "")
}

// maxVersionBody limits a manifest with its sidecars, of which the package list is the largest.
const maxVersionBody = 64 << 20

// putVersion answers POST /v1/store/versions.
func (a *API) putVersion(w http.ResponseWriter, r *http.Request) error {
	var v api.VersionPut
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxVersionBody)).Decode(&v); err != nil {
		return httpapi.BadRequest("request body: "+err.Error(), "")
	}
	m, err := a.ring.Trust().Verify(v.Manifest, v.Signature)
	if err != nil {
		return api.NewError(api.BadRequest, err.Error(), "nodes boot only what a key signed that this site trusts: "+
			"build the image here from its recipe, or trust the other site's key: pando key create NAME --public "+
			"ITS-site.pub")
	}
	if !v.DryRun {
		if err := a.storeVersion(r.Context(), m, v.StoredVersion); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// storeVersion writes a version. It returns an error if objects of the version are missing.
func (a *API) storeVersion(ctx context.Context, m image.Manifest, v api.StoredVersion) error {
	unlock, err := a.store.Lock(ctx, "image push")
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.allThere(ctx, m); err != nil {
		return err
	}
	if old, err := a.store.GetVersion(image.Version(v.Manifest)); err == nil {
		if _, err := a.ring.Trust().Verify(old.Manifest, old.Signature); err == nil {
			v.Signature = old.Signature // the stored signature may hold more signatures
		}
	}
	digest, err := a.store.PutVersion(
		store.Version{Manifest: v.Manifest, Signature: v.Signature, Provenance: v.Provenance},
	)
	if err != nil {
		return err
	}
	for _, p := range v.Packs {
		if err := a.putPack(ctx, digest, m, p); err != nil {
			return err
		}
	}
	return nil
}

// allThere returns an error if objects of a version are missing or have a wrong size.
func (a *API) allThere(ctx context.Context, m image.Manifest) error {
	missing := 0
	err := a.store.UsesOf(ctx, m, func(u store.Use) {
		if size, ok := a.store.Stat(u.ID); !ok || u.Size >= 0 && size != u.Size {
			missing++
		}
	})
	if errors.Is(err, fs.ErrNotExist) {
		missing++
		err = nil
	}
	if err == nil && missing > 0 {
		err = api.NewError(
			api.Conflict,
			fmt.Sprintf("%d objects of the version are not in the store (any more)", missing),
			"run the same command again: it sends them",
		)
	}
	return err
}

// putPack adds a boot pack that is signed for this site and complete. Any other is left out without an error, because a
// version boots without a pack too. A pack that this server made from later boots stays.
func (a *API) putPack(ctx context.Context, v fleet.Digest, m image.Manifest, r bootpack.Record) error {
	keys := a.ring.Trust().Accepted()
	if m.PackKey != "" {
		keys = []string{m.PackKey}
	}
	b, err := a.store.Get(ctx, r.Object)
	if err != nil {
		return nil
	}
	p, err := bootpack.Verify(b, []byte(r.Signature), v, keys...)
	if err != nil || p.Class != r.Class {
		return nil
	}
	for _, e := range p.Pieces {
		if _, ok := a.store.Stat(e.ID); !ok {
			return nil
		}
	}
	have, err := a.store.Packs(v)
	if err != nil {
		return err
	}
	for _, h := range have {
		if h.Class == r.Class && h.Sequence >= r.Sequence {
			return nil
		}
	}
	return a.store.PutPack(v, r)
}
