package chunk

import (
	"context"
	"time"
)

// Request asks a Source for one object. Only ID must be set.
type Request struct {
	ID   ID
	Size int64 // stored bytes; 0: not known

	// Optional says that the caller has another way to the bytes. A source that would wait until an object can be had
	// instead returns an error when the object is missing or damaged everywhere.
	Optional bool

	Attempt  int           // how often this request failed before
	Patience time.Duration // longest time without a byte; 0: the source's own limit
	Fresh    bool          // wrong bytes were seen: caches on the way must revalidate
}

// Source gets objects from one server, a peer, a cache, or a combination of others. It returns verified objects. It is
// safe for concurrent use, and gives up when ctx is done.
type Source interface {
	Get(ctx context.Context, r Request) (Verified, error)
}

// SourceFunc is a function as a Source.
type SourceFunc func(ctx context.Context, r Request) (Verified, error)

// Get calls f.
func (f SourceFunc) Get(ctx context.Context, r Request) (Verified, error) { return f(ctx, r) }
