package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"pando/internal/chunk"
)

// Origin is a source with a name for logs, such as one server. Its Get makes one attempt.
type Origin interface {
	chunk.Source
	Name() string
}

// Failover tries several sources until one returns the object. It starts with the source that answered last, so a
// source that is down costs one failed attempt and not one for each object.
type Failover struct {
	TimeoutFloor *TimeoutFloor // minimum time-out on a slow link; nil: none

	sources  []Origin
	observer Observer
	last     atomic.Int32 // index of the source that answered last
}

// NewFailover returns a Failover over sources, preferred first. It needs at least one.
func NewFailover(observer Observer, sources ...Origin) (*Failover, error) {
	if len(sources) == 0 {
		return nil, errors.New("no source to get objects from")
	}
	return &Failover{sources: sources, observer: observer}, nil
}

// Patience is how long a source may send nothing. It is short if another source is left to try. It doubles with every
// failed attempt, because giving up on a busy server makes it busier.
const (
	patienceAlone = 10 * time.Second
	patienceFirst = 3 * time.Second
	patienceMost  = 60 * time.Second
)

func patience(sources, attempt int) time.Duration {
	p := patienceAlone
	if sources > 1 {
		p = patienceFirst
	}
	for ; attempt > 0 && p < patienceMost; attempt-- {
		p *= 2
	}
	return min(p, patienceMost)
}

// Get tries every source once, and a source that sent wrong bytes a second time: they may have been damaged on the
// way or in a cache. The error joins the errors of all sources.
func (f *Failover) Get(ctx context.Context, r chunk.Request) (chunk.Verified, error) {
	if r.Patience == 0 {
		r.Patience = f.TimeoutFloor.AtLeast(patience(len(f.sources), r.Attempt))
	}
	var errs []error
	first := int(f.last.Load())
	for i := range f.sources {
		n := (first + i) % len(f.sources)
		v, err := f.ask(ctx, f.sources[n], r)
		var wrong *chunk.WrongBytesError
		if errors.As(err, &wrong) {
			r.Fresh = true
			v, err = f.ask(ctx, f.sources[n], r)
		}
		if err == nil {
			f.last.Store(int32(n))
			return v, nil
		}
		if ctx.Err() != nil {
			return chunk.Verified{}, context.Cause(ctx)
		}
		errs = append(errs, err)
	}
	return chunk.Verified{}, errors.Join(errs...)
}

func (f *Failover) ask(ctx context.Context, s Origin, r chunk.Request) (chunk.Verified, error) {
	v, err := s.Get(ctx, r)
	switch {
	case err == nil:
		f.observer.Received(s.Name(), len(v.Stored()))
	case ctx.Err() == nil:
		f.observer.Failed(s.Name(), r.ID, err)
	}
	return v, err
}
