package chunk

import (
	"context"
	"time"
)

// Request asks a Source for one object. Only ID must be set.
type Request struct {
	ID   ID
	Size int64 // stored bytes; 0: unknown

	// Optional means that the caller can get the bytes in another way. A source that otherwise waits until the object
	// is available then returns an error if the object is missing or damaged everywhere.
	Optional bool

	Attempt  int           // number of failed attempts before this one
	Patience time.Duration // longest time without a byte; 0: the source's own limit
	Fresh    bool          // an earlier reply had wrong bytes: caches on the way must revalidate
}

// Source returns objects from one server, a peer, a cache, or a combination of sources. It verifies them. It is safe
// for concurrent use, and returns when ctx is done.
type Source interface {
	Get(ctx context.Context, r Request) (Verified, error)
}

// SourceFunc is a function as a Source.
type SourceFunc func(ctx context.Context, r Request) (Verified, error)

// Get calls f.
func (f SourceFunc) Get(ctx context.Context, r Request) (Verified, error) { return f(ctx, r) }
