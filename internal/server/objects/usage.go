package objects

import (
	"context"
	"net/http"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/workdir"
)

// collectStore answers POST /v1/store/collect.
func (a *API) collectStore(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.StoreCollect](r)
	if err != nil {
		return nil, err
	}
	if req.Keep != nil && *req.Keep < 0 || req.Grace != nil && *req.Grace < 0 {
		return nil, httpapi.BadRequest("keep and grace are not negative", "")
	}
	return a.collector.collect(r.Context(), req)
}

// storeUsage answers GET /v1/store/usage.
func (a *API) storeUsage(r *http.Request) (any, error) {
	var versions []registry.ImageVersion
	var tags []fleet.Tag
	err := a.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		if versions, err = tx.Versions(""); err == nil {
			tags, err = tx.Tags("")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	u := newUsage()
	if err := u.add(r.Context(), a, versions, tags); err != nil {
		return nil, err
	}
	work, err := workdir.List(a.collector.work)
	for _, w := range work {
		if w.Layers {
			u.out.Layers += w.Bytes
		} else {
			u.out.Work += w.Bytes
		}
	}
	return u.out, err
}

// usage sums up how many bytes versions and packs use.
type usage struct {
	out   api.StoreUsage
	sizes map[chunk.ID]int64
	by    map[chunk.ID]owners
}

// owners says how many versions name an object, and of which image if only one.
type owners struct {
	versions int
	image    string
	several  bool // more than one image
	pack     bool
}

func newUsage() *usage {
	return &usage{sizes: map[chunk.ID]int64{}, by: map[chunk.ID]owners{},
		out: api.StoreUsage{Images: []api.ImageUsage{}, Broken: []string{}}}
}

// add reads the whole store. versions holds the registry's versions by image, newest first; versions without an image
// come last.
func (u *usage) add(ctx context.Context, a *API, versions []registry.ImageVersion, tags []fleet.Tag) error {
	err := a.store.EachObject(ctx, func(id chunk.ID, size int64) { u.sizes[id] = size })
	if err != nil {
		return err
	}
	named := map[fleet.Digest]bool{}
	for _, v := range versions {
		named[v.Version] = true
	}
	all, err := a.store.Versions()
	if err != nil {
		return err
	}
	for _, v := range all {
		if !named[v] {
			versions = append(versions, registry.ImageVersion{Version: v})
		}
	}
	objects := make([][]chunk.ID, len(versions))
	for i, v := range versions {
		if objects[i], err = u.version(ctx, a, v); err != nil {
			return err
		}
	}
	u.images(versions, objects, tags)
	u.total()
	return nil
}

// version records what a version names and returns its objects, each once.
func (u *usage) version(ctx context.Context, a *API, v registry.ImageVersion) (ids []chunk.ID, err error) {
	seen := map[chunk.ID]bool{}
	m, err := a.store.Manifest(v.Version)
	if err == nil {
		err = a.store.UsesOf(ctx, m, func(use store.Use) {
			if _, ok := u.sizes[use.ID]; ok && !seen[use.ID] {
				seen[use.ID] = true
				ids = append(ids, use.ID)
			}
		})
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		u.out.Broken = append(u.out.Broken, err.Error())
	}
	for _, id := range ids {
		w := u.by[id]
		w.several = w.several || w.versions > 0 && w.image != v.Image
		w.versions, w.image = w.versions+1, v.Image
		u.by[id] = w
	}
	return ids, a.store.PackUses(ctx, v.Version, func(id chunk.ID) {
		w := u.by[id]
		w.pack = true
		u.by[id] = w
	})
}

// images adds the views of all images. An object is new in the oldest version of the image that names it.
func (u *usage) images(versions []registry.ImageVersion, objects [][]chunk.ID, tags []fleet.Tag) {
	for i, v := range versions {
		if n := len(u.out.Images); n == 0 || u.out.Images[n-1].Image != v.Image {
			u.out.Images = append(u.out.Images, api.ImageUsage{Image: v.Image})
		}
		view := api.VersionUsage{Version: v.Version}
		older := map[chunk.ID]bool{}
		for j := i + 1; j < len(versions) && versions[j].Image == v.Image; j++ {
			for _, id := range objects[j] {
				older[id] = true
			}
		}
		for _, t := range tags {
			if t.Image == v.Image && t.Version == v.Version {
				view.Tags = append(view.Tags, t.Tag)
			}
		}
		for _, id := range objects[i] {
			size := u.sizes[id]
			view.Total += size
			if u.by[id].versions == 1 {
				view.Own += size
			}
			if !older[id] {
				view.New += size
			}
		}
		view.Shared = view.Total - view.Own
		u.out.Whole += view.Total
		img := &u.out.Images[len(u.out.Images)-1]
		img.Total += view.New // each of the image's objects is new once
		img.Versions = append(img.Versions, view)
	}
}

// total adds each object's size to what uses it.
func (u *usage) total() {
	place := map[string]int{}
	for i, img := range u.out.Images {
		place[img.Image] = i
	}
	for id, size := range u.sizes {
		u.out.Objects++
		u.out.Bytes += size
		switch w := u.by[id]; {
		case w.several:
			u.out.Shared += size
		case w.versions > 0:
			u.out.Images[place[w.image]].Bytes += size
		case w.pack:
			u.out.Packs += size
		default:
			u.out.Unnamed += size
		}
	}
}
