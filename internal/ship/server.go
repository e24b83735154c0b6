package ship

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Server is a Pando server as a Place.
type Server struct{ *api.Client }

// Name returns the address of the server.
func (s Server) Name() string { return s.Server() }

// Find looks up a reference among the images of the server.
func (s Server) Find(ctx context.Context, ref fleet.Ref) (fleet.Digest, error) {
	name, tag, digest, err := ref.Split()
	if err != nil {
		return "", err
	}
	i, err := s.Image(ctx, name)
	if err != nil {
		return "", err
	}
	if v := i.Tags[tag]; v != "" {
		return v, nil
	}
	var all []fleet.Digest
	for _, v := range i.Versions {
		all = append(all, v.Digest)
	}
	if found, err := beginning(ref, digest, all); found != "" || err != nil {
		return found, err
	}
	return "", noVersion(ref, name, slices.Sorted(maps.Keys(i.Tags)), s.Name())
}

// noVersion returns an error for an unknown tag or version that lists the existing ones.
func noVersion(ref fleet.Ref, name string, tags []string, where string) error {
	kind := "version"
	if ref.IsTag() {
		kind = "tag"
	}
	return api.NewError(api.NotFound, fmt.Sprintf("no %s %s in %s: image %s has %s", kind, ref, where, name,
		fleet.TagList(tags)), name+"@sha256:... names a version by its digest")
}

// beginning returns the version whose digest begins with the given digits, "" if there is none.
func beginning(ref fleet.Ref, digits fleet.Digest, all []fleet.Digest) (found fleet.Digest, err error) {
	for _, v := range all {
		switch {
		case digits == "" || !digits.Begins(v) || v == found:
		case found != "":
			return "", fmt.Errorf("image %s: several versions begin so: write more digits", ref)
		default:
			found = v
		}
	}
	return found, nil
}

// Accepts sends the signature to the server for a check.
func (s Server) Accepts(ctx context.Context, v api.StoredVersion) error {
	return s.PutVersion(
		ctx,
		api.VersionPut{StoredVersion: api.StoredVersion{Manifest: v.Manifest, Signature: v.Signature}, DryRun: true},
	)
}

// Missing asks the server, with at most api.MaxObjectList objects in each request.
func (s Server) Missing(ctx context.Context, objects []api.ObjectSize) (out []api.ObjectSize, err error) {
	for len(objects) > 0 {
		n := min(len(objects), api.MaxObjectList)
		l, err := s.MissingObjects(ctx, api.ObjectList{Objects: objects[:n]})
		if err != nil {
			return nil, err
		}
		out, objects = append(out, l.Objects...), objects[n:]
	}
	return out, nil
}

// Publish stores the version, then its names.
func (s Server) Publish(ctx context.Context, v api.StoredVersion, name string, tags []string) ([]string, error) {
	if err := s.PutVersion(ctx, api.VersionPut{StoredVersion: v}); err != nil {
		return nil, err
	}
	img, err := s.AddVersion(ctx, name, api.VersionAdd{Version: image.Version(v.Manifest), Tags: tags})
	return img.TagsKept, err
}
