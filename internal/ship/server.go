package ship

import (
	"context"
	"fmt"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
)

// Server is a server as a Place.
type Server struct{ *api.Client }

// Name is the address of the server.
func (s Server) Name() string { return s.Server() }

// Find looks among the images of the server.
func (s Server) Find(ctx context.Context, name, tag string) (fleet.Digest, error) {
	i, err := s.Image(ctx, name)
	if err != nil {
		return "", err
	}
	if v := i.Tags[tag]; v != "" {
		return v, nil
	}
	return "", api.NewError(api.NotFound, fmt.Sprintf("image %s:%s: not found on %s", name, tag, s.Name()), "")
}

// Accepts asks for the signature only.
func (s Server) Accepts(ctx context.Context, v api.StoredVersion) error {
	return s.PutVersion(
		ctx,
		api.VersionPut{StoredVersion: api.StoredVersion{Manifest: v.Manifest, Signature: v.Signature}, DryRun: true},
	)
}

// Missing asks for some thousand at a time.
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

// Publish stores the version, then names it.
func (s Server) Publish(ctx context.Context, v api.StoredVersion, name string, tags []string) error {
	if err := s.PutVersion(ctx, api.VersionPut{StoredVersion: v}); err != nil {
		return err
	}
	_, err := s.AddVersion(ctx, name, api.VersionAdd{Version: image.Version(v.Manifest), Tags: tags})
	return err
}
