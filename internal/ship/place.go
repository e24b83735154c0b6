package ship

import (
	"context"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
)

// Place keeps versions. It is used by several goroutines at a time.
type Place interface {
	// Name is for people.
	Name() string
	// Find reports which version a reference means that has a tag, or some digits of a version.
	Find(ctx context.Context, ref fleet.Ref) (fleet.Digest, error)
	// StoredVersion returns a version without its objects.
	StoredVersion(ctx context.Context, v fleet.Digest) (api.StoredVersion, error)
	// Object returns an object, verified.
	Object(ctx context.Context, id chunk.ID) ([]byte, error)

	// Accepts returns an error if this place would not take a version, because of who signed it.
	Accepts(ctx context.Context, v api.StoredVersion) error
	// Missing reports which objects are not there.
	Missing(ctx context.Context, objects []api.ObjectSize) ([]api.ObjectSize, error)
	// AddObjects stores objects.
	AddObjects(ctx context.Context, objects [][]byte) error
	// Publish makes a version known under a name, and moves tags to it. Its objects are there. Those tags of an
	// extension are kept by which nodes of that server have it.
	Publish(ctx context.Context, v api.StoredVersion, name string, tags []string) (kept []string, err error)
}
