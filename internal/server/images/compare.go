package images

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/build/compare"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/registry"
	"pando/internal/store"
)

// imageDiff answers what a node that has one version must fetch for another.
func (a *API) imageDiff(r *http.Request) (any, error) {
	var out api.ImageDiff
	var err error
	if out.From, out.FromHas, err = fleetview.VersionParam(r, a.registry, "from", r.PathValue("name")); err != nil {
		return nil, err
	}
	if out.To, out.ToHas, err = fleetview.VersionParam(r, a.registry, "to", r.PathValue("name")); err != nil {
		return nil, err
	}
	return out, a.Compare(r.Context(), &out)
}

// Compare fills in the differences between the two versions that out names.
func (a *API) Compare(ctx context.Context, out *api.ImageDiff) error {
	from, err := a.store.Manifest(out.FromHas)
	if err != nil {
		return err
	}
	to, err := a.store.Manifest(out.ToHas)
	if err != nil {
		return err
	}
	d, was, is, err := compare.Versions(ctx, a.store, from, to)
	if err != nil {
		return err
	}
	out.Root, out.Whole, out.Index, out.Kernel, out.Drivers = d.Root, d.Whole, d.Index, d.Kernel, d.Drivers
	owner, err := is.Owners()
	if err != nil {
		return err
	}
	before, err := was.Owners()
	if err != nil {
		return err
	}
	out.Files = []api.FileChange{}
	for _, f := range d.Files {
		out.Files = append(
			out.Files,
			api.FileChange{Path: f.Path, Change: f.Change, Was: f.Was, Is: f.Is, Fetch: f.Fetch,
				Package: cmp.Or(owner[f.Path], before[f.Path])},
		)
	}
	out.Packages = packageChanges(was.Packages(), is.Packages(), out.Files)
	out.Pack, err = a.newInPack(ctx, out.FromHas, out.ToHas)
	return err
}

// packageChanges lists packages whose versions differ or of which files must be fetched, the most bytes first.
func packageChanges(was, is []image.Package, files []api.FileChange) []api.PackageChange {
	all := map[string]*api.PackageChange{}
	at := func(name string) *api.PackageChange {
		if all[name] == nil {
			all[name] = &api.PackageChange{Name: name}
		}
		return all[name]
	}
	for _, p := range was {
		at(p.Name).Was = p.Version
	}
	for _, p := range is {
		at(p.Name).Is = p.Version
	}
	for _, f := range files {
		if f.Package != "" {
			p := at(f.Package)
			p.Fetch += f.Fetch
			if f.Change != compare.Shared {
				p.Files++
			}
		}
	}
	out := []api.PackageChange{}
	for _, p := range all {
		switch {
		case p.Was == "" && p.Is != "":
			p.Change = api.PackageAdded
		case p.Was != "" && p.Is == "":
			p.Change = api.PackageRemoved
		case p.Was != p.Is:
			p.Change = api.PackageChanged
		case p.Files > 0:
			p.Change = api.PackageRebuilt
		case p.Fetch > 0:
			p.Change = api.PackageTogether
		default:
			continue
		}
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b api.PackageChange) int {
		return cmp.Or(cmp.Compare(b.Fetch, a.Fetch), strings.Compare(a.Name, b.Name))
	})
	return out
}

// newInPack returns the bytes of a version's pack that are not in another version's pack.
func (a *API) newInPack(ctx context.Context, from, to fleet.Digest) (int64, error) {
	has := map[chunk.ID]bool{}
	if err := a.store.PackUses(ctx, from, func(id chunk.ID) { has[id] = true }); err != nil {
		return 0, err
	}
	packs, err := a.store.Packs(to)
	if err != nil {
		return 0, err
	}
	r, ok := bootpack.Find(packs, "")
	if !ok {
		return 0, nil
	}
	b, err := a.store.Get(ctx, r.Object)
	if err != nil {
		return 0, err
	}
	p, err := bootpack.Decode(b)
	sum := int64(0)
	for _, e := range p.Pieces {
		if !has[e.ID] {
			has[e.ID] = true
			sum += int64(e.StoredSize)
		}
	}
	return sum, err
}

// imageSBOM answers the bill of materials of a version.
func (a *API) imageSBOM(r *http.Request) (any, error) {
	_, v, err := fleetview.VersionParam(r, a.registry, "ref", r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	m, err := a.store.Manifest(v)
	if err != nil {
		return nil, err
	}
	t, err := imagefs.OpenTree(r.Context(), a.store, m)
	if err != nil {
		return nil, err
	}
	c := image.Contents{Name: r.PathValue("name"), Version: v, Architecture: m.Architecture, Packages: t.Packages()}
	c.System, c.Release = t.System()
	c.Built = a.store.Written(v)
	kept, err := a.store.GetVersion(v)
	if err != nil {
		return nil, err
	}
	if p, err := image.DecodeProvenance(kept.Provenance); err == nil {
		c.Builder, c.Built = p.Builder, p.Built
		if m.IsExtension() { // the root of an extension has no package list
			c.Packages = p.Packages
		}
	}
	if m.IsExtension() {
		c.System, c.Release = a.systemOf(r.Context(), m.Extends.Base)
	}
	b, err := c.SPDX()
	return json.RawMessage(b), err
}

// systemOf returns the distribution of a version and its release; both are empty if the version is not in the store.
func (a *API) systemOf(ctx context.Context, v fleet.Digest) (name, release string) {
	m, err := a.store.Manifest(v)
	if err != nil {
		return "", ""
	}
	t, err := imagefs.OpenTree(ctx, a.store, m)
	if err != nil {
		return "", ""
	}
	return t.System()
}

// imageHistory answers which versions an image had, what they were made of, and how its tags moved.
func (a *API) imageHistory(r *http.Request) (any, error) {
	out := api.ImageHistory{Image: r.PathValue("name"), Versions: []api.HistoryVersion{}, Tags: []api.TagMove{}}
	var views []api.Image
	added := map[fleet.Digest]registry.ImageVersion{}
	err := a.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		if views, err = a.imageViews(r.Context(), tx, out.Image); err != nil {
			return err
		}
		versions, err := tx.Versions(out.Image)
		if err != nil {
			return err
		}
		for _, v := range versions {
			added[v.Version] = v
		}
		moves, err := tx.TagMoves(out.Image)
		for _, m := range moves {
			out.Tags = append(out.Tags, api.TagMove{Tag: m.Tag, Version: m.Version, Was: m.Was, At: m.At, Who: m.Who})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(views) == 0 {
		return a.imageNamed(r.Context(), out.Image) // returns the error that there is none
	}
	older := map[chunk.ID]bool{}
	for _, v := range slices.Backward(views[0].Versions) {
		h := a.historyOf(v, added[v.Digest])
		if h.New, err = a.newBytes(r.Context(), v.Digest, older); err != nil {
			return nil, err
		}
		out.Versions = append(out.Versions, h)
	}
	slices.Reverse(out.Versions)
	return out, nil
}

// historyOf returns a version with its provenance.
func (a *API) historyOf(v api.Version, known registry.ImageVersion) api.HistoryVersion {
	h := api.HistoryVersion{Digest: v.Digest, Tags: v.Tags, Added: known.Added, Stored: v.StoredSize, InUse: v.InUse}
	kept, err := a.store.GetVersion(v.Digest)
	if err != nil {
		return h
	}
	p, err := image.DecodeProvenance(kept.Provenance)
	if err != nil {
		return h
	}
	h.Built, h.Builder, h.Host, h.Source = p.Built, p.Builder, p.Host, p.Source
	h.Of = cmp.Or(p.Recipe, p.FromDir)
	if p.Origin != nil {
		h.Of, h.Source = strings.TrimSpace(p.Origin.Kind+" "+p.Origin.Name), cmp.Or(p.Origin.Digest, p.Source)
	}
	return h
}

// newBytes returns the bytes of a version's objects that are not in older, and adds the objects to older. If a version
// cannot be read completely, the readable objects count.
func (a *API) newBytes(ctx context.Context, v fleet.Digest, older map[chunk.ID]bool) (int64, error) {
	fresh := map[chunk.ID]int64{}
	err := a.store.Uses(ctx, v, func(u store.Use) {
		if size, ok := a.store.Stat(u.ID); ok && !older[u.ID] {
			fresh[u.ID] = size
		}
	})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil {
		a.log.Warn("version cannot be read completely", "version", v, "err", err)
	}
	sum := int64(0)
	for id, size := range fresh {
		older[id] = true
		sum += size
	}
	return sum, nil
}

// deleteVersion removes a version from an image. The next garbage collection removes its files.
func (a *API) deleteVersion(r *http.Request) (any, error) {
	name, v := r.PathValue("name"), fleet.Digest(r.PathValue("version"))
	if _, err := fleet.ParseDigest(string(v)); err != nil {
		return nil, httpapi.Invalid(err)
	}
	return nil, a.registry.UpdateReserved(r.Context(), func(tx *registry.Tx) error {
		users, err := a.collector.UsedBy(r.Context(), tx)
		if err != nil {
			return err
		}
		if by := users[v]; len(by) > 0 {
			return api.NewError(
				api.Conflict,
				fmt.Sprintf("version %s of image %s is in use by %s", v.Short(), name, strings.Join(by, ", ")),
				"move the tag or the group to another version, and boot the nodes that run it",
			)
		}
		return tx.DeleteVersion(name, v)
	})
}
