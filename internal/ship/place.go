package ship

import (
	"context"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
)

// Place keeps versions. It is safe for concurrent use.
type Place interface {
	// Name is the name of the place for people.
	Name() string
	// Find resolves a reference with a tag, or with the first digits of a version.
	Find(ctx context.Context, ref fleet.Ref) (fleet.Digest, error)
	// StoredVersion returns a version without its objects.
	StoredVersion(ctx context.Context, v fleet.Digest) (api.StoredVersion, error)
	// Object returns an object, verified.
	Object(ctx context.Context, id chunk.ID) ([]byte, error)

	// Accepts returns an error if this place would refuse the version because of its signatures.
	Accepts(ctx context.Context, v api.StoredVersion) error
	// Missing returns those of the objects that the place does not have.
	Missing(ctx context.Context, objects []api.ObjectSize) ([]api.ObjectSize, error)
	// AddObjects stores objects.
	AddObjects(ctx context.Context, objects [][]byte) error
	// Publish stores a version under a name, and moves tags to it. Its objects must be stored. It returns the tags of
	// an extension that it did not move, because nodes have the extension by them.
	Publish(ctx context.Context, v api.StoredVersion, name string, tags []string) (kept []string, err error)
}
