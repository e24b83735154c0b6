package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/trace"
)

func (a *API) listImages(r *http.Request) (any, error) {
	out := api.ImageList{}
	err := a.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		out.Images, err = a.imageViews(r.Context(), tx, "")
		return err
	})
	return out, err
}

func (a *API) showImage(r *http.Request) (any, error) {
	return a.imageNamed(r.Context(), r.PathValue("name"))
}

func (a *API) imageNamed(ctx context.Context, name string) (any, error) {
	var out []api.Image
	err := a.registry.View(ctx, func(tx *registry.Tx) (err error) {
		out, err = a.imageViews(ctx, tx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, api.NewError(
			api.NotFound,
			fmt.Sprintf("image %q: not found", name),
			"`pando image list` shows what there is",
		)
	}
	return out[0], a.markSlower(ctx, &out[0])
}

// imageViews returns an image with its tags and what the store knows of its versions; name "" means all images.
func (a *API) imageViews(ctx context.Context, tx *registry.Tx, name string) ([]api.Image, error) {
	versions, err := tx.Versions(name)
	if err != nil {
		return nil, err
	}
	tags, err := tx.Tags(name)
	if err != nil {
		return nil, err
	}
	users, err := a.holders(ctx, tx)
	if err != nil {
		return nil, err
	}
	out := []api.Image{}
	for _, v := range versions {
		if len(out) == 0 || out[len(out)-1].Name != v.Image {
			out = append(out, api.Image{Name: v.Image, Tags: map[string]fleet.Digest{}})
		}
		img := &out[len(out)-1]
		view := a.versionView(v)
		for _, t := range tags {
			if t.Image == v.Image && t.Version == v.Version {
				view.Tags, img.Tags[t.Tag] = append(view.Tags, t.Tag), t.Version
			}
		}
		view.InUse = users[v.Version]
		img.Versions = append(img.Versions, view)
	}
	return out, nil
}

// versionView describes a version from its manifest and provenance. A version whose files are gone is still listed, so
// that people can see that.
func (a *API) versionView(v registry.ImageVersion) api.Version {
	out := api.Version{Digest: v.Version, Built: v.Added}
	kept, err := a.store.GetVersion(v.Version)
	if err != nil {
		a.log.Warn("version of the registry is not in the store", "image", v.Image, "version", v.Version, "err", err)
		return out
	}
	m, err := image.Decode(kept.Manifest)
	if err != nil {
		a.log.Warn("manifest in the store cannot be read", "version", v.Version, "err", err)
		return out
	}
	out.Architecture, out.Kernel, out.KernelSize = m.Architecture, m.Kernel.Release, m.Kernel.Size
	out.FileSystem, out.RootSize, out.StoredSize, out.Files = m.Root.FileSystem, m.Root.Size, m.Sizes.Stored,
		m.Sizes.Files
	out.DriversSize = image.DriversSize(m.AllDrivers())
	if m.IsExtension() {
		out.Extends = m.Extends.Base
	}
	if p, err := image.DecodeProvenance(kept.Provenance); err == nil {
		out.Built, out.Recipe = p.Built, p.Recipe
		switch {
		case m.IsExtension():
			out.Recipe = strings.TrimSpace(
				"over " + m.Extends.Base.Short() + ": " + strings.Join(p.Command, " ") + " " + p.FromDir,
			)
		case p.Parent != "" && p.Recipe == "":
			out.Recipe = "shell of " + p.Parent.Short() + ": " + strings.Join(p.Command, " ")
		case p.Recipe == "":
			out.Recipe = p.FromDir
		}
		if p.Origin != nil {
			out.Recipe = p.Origin.Name
		}
		if a.logsKept && out.Extends == "" && p.NoUploader() {
			out.NoLogs = noUploader
		}
	}
	return out
}

// noUploader is the note at a version whose nodes cannot send their journals although the server keeps journals.
const noUploader = "what its nodes log is gone with them: it has no systemd-journal-upload; add the package " +
	image.UploaderPackage + " to its recipe"

// holders returns what keeps versions in use: groups and nodes that want them, and nodes that run them.
func (a *API) holders(ctx context.Context, tx *registry.Tx) (map[fleet.Digest][]string, error) {
	out := map[fleet.Digest][]string{}
	groups, err := tx.Groups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if d, err := tx.Resolve(g.Image); err == nil {
			out[d] = append(out[d], "group "+g.Name)
		}
	}
	live, err := tx.Rollouts(registry.RolloutFilter{Live: true})
	if err != nil {
		return nil, err
	}
	for _, r := range live {
		for _, d := range r.Versions() {
			if by := "rollout " + r.ID; !slices.Contains(out[d], by) {
				out[d] = append(out[d], by)
			}
		}
	}
	nodes, err := tx.Nodes()
	if err != nil {
		return nil, err
	}
	views, err := a.views.Views(ctx, tx, nodes)
	if err != nil {
		return nil, err
	}
	for _, n := range views {
		running := n.Boot != nil && n.Boot.State != trace.Down && n.Boot.Version != ""
		if running {
			out[n.Boot.Version] = append(out[n.Boot.Version], "node "+n.Name)
		}
		if n.Version != "" && n.Desired != "" && !(running && n.Boot.Version == n.Desired) {
			out[n.Desired] = append(out[n.Desired], "node "+n.Name)
		}
	}
	return out, nil
}

func (a *API) addVersion(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.VersionAdd](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if err := httpapi.Invalid(fleet.ValidName("image", name)); err != nil {
		return nil, err
	}
	defer a.collector.LockNames()()
	if err := a.checkVersion(r.Context(), req.Version); err != nil {
		return nil, err
	}
	var follow, kept []string
	err = a.registry.Update(r.Context(), func(tx *registry.Tx) (err error) {
		released, err := a.released(tx, name, req)
		if err != nil {
			return err
		}
		if err := a.checkArchitecture(tx, name, req.Version); err != nil {
			return err
		}
		if err := tx.AddVersion(registry.ImageVersion{Image: name, Version: req.Version, Added: a.now()}); err != nil {
			return err
		}
		for _, t := range req.Tags {
			if err := httpapi.Invalid(fleet.ValidName("tag", t)); err != nil {
				return err
			}
			if _, err := tx.Tag(name, t); err == nil && !released {
				kept = append(kept, t)
				continue
			}
			was, err := tx.PutTag(fleet.Tag{Image: name, Tag: t, Version: req.Version})
			if err != nil {
				return err
			}
			if err := tx.AddTagMove(registry.TagMove{Image: name, Tag: t, Version: req.Version, Was: was, At: a.now(),
				Who: httpapi.CallerName(r)}); err != nil {
				return err
			}
		}
		follow, err = fleetview.NodesWithExtension(tx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	a.newVersion(req.Version)
	a.wake(r.Context(), follow)
	out, err := a.imageNamed(r.Context(), name)
	if img, ok := out.(api.Image); ok {
		img.TagsKept = kept
		out = img
	}
	return out, err
}

// released reports whether tags move to a new version. Running nodes get an extension as soon as its tag moves. So a
// build moves no tag of an extension that nodes have, unless it is the first one for its version of the image.
func (a *API) released(tx *registry.Tx, name string, req api.VersionAdd) (bool, error) {
	base := a.versionView(registry.ImageVersion{Image: name, Version: req.Version}).Extends
	if base == "" || req.Release {
		return true, nil
	}
	nodes, err := fleetview.NodesWithExtension(tx, name)
	if err != nil || len(nodes) == 0 {
		return true, err
	}
	all, err := tx.Versions(name)
	for _, v := range all {
		if v.Version != req.Version && a.versionView(v).Extends == base {
			return false, err
		}
	}
	return true, err
}

// checkArchitecture refuses a version whose architecture differs from the image's other versions: a tag that moves to
// it would leave all nodes of that tag without an image that they can boot.
func (a *API) checkArchitecture(tx *registry.Tx, name string, d fleet.Digest) error {
	versions, err := tx.Versions(name)
	if err != nil {
		return err
	}
	is := a.versionView(registry.ImageVersion{Image: name, Version: d}).Architecture
	for _, v := range versions {
		view := a.versionView(v)
		if (view.Extends == "") != (a.versionView(registry.ImageVersion{Image: name, Version: d}).Extends == "") &&
			view.Architecture != "" {
			return api.NewError(
				api.Conflict,
				fmt.Sprintf("%s is taken: extensions and images that nodes boot have names of their own", name),
				"give it another name",
			)
		}
		if was := view.Architecture; was != "" && is != "" && was != is {
			return api.NewError(
				api.Conflict,
				fmt.Sprintf("image %s is for %s, and version %s is for %s", name, was, d.Short(), is),
				"give it a name of its own, such as "+name+"-"+is,
			)
		}
	}
	return nil
}

// checkVersion refuses a version that nodes of this site would not accept.
func (a *API) checkVersion(ctx context.Context, d fleet.Digest) error {
	if _, err := fleet.ParseDigest(string(d)); err != nil {
		return httpapi.Invalid(err)
	}
	v, err := a.store.GetVersion(d)
	if err == nil {
		if err := a.signer.renew(ctx, v); err != nil { // it may have been built before a key that signs now was added
			return err
		}
		v, err = a.store.GetVersion(d)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return api.NewError(api.NotFound, err.Error(), "build it on this machine with `pando image build`")
	}
	if err != nil {
		return err
	}
	if _, err := a.signer.ring.Trust().Verify(v.Manifest, v.Signature); err != nil {
		return api.NewError(api.BadRequest, err.Error(), a.unsignedHint(err))
	}
	return nil
}

func (a *API) setTag(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.TagSet](r)
	if err != nil {
		return nil, err
	}
	out := api.TagChange{Tag: fleet.Tag{Image: r.PathValue("name"), Tag: r.PathValue("tag")}}
	name, _, _, err := req.Ref.Split()
	if err != nil {
		return nil, httpapi.Invalid(err)
	}
	if name != out.Tag.Image {
		return nil, httpapi.BadRequest(
			fmt.Sprintf("tag %s:%s cannot point at image %s", out.Tag.Image, out.Tag.Tag, name),
			"a tag names a version of its own image",
		)
	}
	if err := httpapi.Invalid(fleet.ValidName("tag", out.Tag.Tag)); err != nil {
		return nil, err
	}
	err = a.registry.Update(r.Context(), func(tx *registry.Tx) error {
		if err := fleetview.CheckRef(tx, req.Ref); err != nil {
			return err
		}
		before, err := fleetview.DesiredAll(tx)
		if err != nil {
			return err
		}
		if out.Tag.Version, err = tx.Resolve(req.Ref); err != nil {
			return err
		}
		if out.Was, err = tx.PutTag(out.Tag); err != nil {
			return err
		}
		move := registry.TagMove{
			Image:   name,
			Tag:     out.Tag.Tag,
			Version: out.Tag.Version,
			Was:     out.Was,
			At:      a.now(),
			Who:     httpapi.CallerName(r),
		}
		if err := tx.AddTagMove(move); err != nil {
			return err
		}
		if out.Nodes, err = fleetview.Changed(tx, before); err != nil {
			return err
		}
		if out.Follow, err = fleetview.NodesWithExtension(tx, name); err != nil {
			return err
		}
		return fleetview.OrDryRun(req.DryRun)
	})
	if err == nil && !req.DryRun {
		a.wake(r.Context(), out.Follow)
	}
	return out, err
}

func (a *API) deleteTag(r *http.Request) (any, error) {
	name, tag := r.PathValue("name"), r.PathValue("tag")
	return nil, a.registry.UpdateReserved(r.Context(), func(tx *registry.Tx) error {
		user, err := tagUser(tx, name, tag)
		if err != nil {
			return err
		}
		if user != "" {
			return api.NewError(
				api.Conflict,
				fmt.Sprintf("tag %s:%s is in use by %s", name, tag, user),
				"give it another image first",
			)
		}
		was, err := tx.Tag(name, tag)
		if err != nil {
			return err
		}
		if err := tx.AddTagMove(registry.TagMove{Image: name, Tag: tag, Was: was.Version, At: a.now(),
			Who: httpapi.CallerName(r)}); err != nil {
			return err
		}
		return tx.DeleteTag(name, tag)
	})
}

// tagUser returns a group or node that wants a tag, "" if there is none.
func tagUser(tx *registry.Tx, name, tag string) (string, error) {
	wants := func(ref fleet.Ref) bool {
		n, t, _, err := ref.Split()
		return err == nil && n == name && t == tag
	}
	groups, err := tx.Groups()
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		if wants(g.Image) ||
			slices.ContainsFunc(g.ExtensionList(), func(r string) bool { return wants(fleet.Ref(r)) }) {
			return "group " + g.Name, nil
		}
	}
	nodes, err := tx.Nodes()
	for _, n := range nodes {
		if wants(n.Version) ||
			slices.ContainsFunc(n.ExtensionList(), func(r string) bool { return wants(fleet.Ref(r)) }) {
			return "node " + n.Name, nil
		}
	}
	return "", err
}
