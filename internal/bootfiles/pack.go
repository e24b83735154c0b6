package bootfiles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
)

// packPatience is how long a boot waits for the map of its boot pack, a few kilobytes. A boot without the map goes
// on, and receives more bytes. On a network with announced delays it waits longer.
const packPatience = 5 * time.Second

// Pack is the map of a boot pack that is to be fetched.
type Pack struct {
	Ref     fleet.PackRef
	Version fleet.Digest // that it has to be of
	Keys    []string     // one of which has to have signed it
	Failed  func(Source, error)
}

// From gets and verifies the map; anybody will do.
func (f Pack) From(ctx context.Context, client *http.Client, sources []Source) (bootpack.Map, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, max(packPatience, 4*announceDelayOf(sources)))
	defer cancel()
	id, err := chunk.ParseID(f.Ref.Object)
	if err != nil {
		return bootpack.Map{}, nil, fmt.Errorf("assigned boot pack: %w", err)
	}
	var errs []error
	for _, source := range sources {
		data, err := source.object(ctx, client, id)
		switch {
		case err != nil && source.Peer:
			f.Failed(source, err)
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", source.URL, err))
			continue
		}
		// These are the bytes that were assigned: another server has no others.
		p, err := bootpack.Verify(data, []byte(f.Ref.Signature), f.Version, f.Keys...)
		return p, data, err
	}
	return bootpack.Map{}, nil, errors.Join(errs...)
}

// object is a small object, verified.
func (s Source) object(ctx context.Context, client *http.Client, id chunk.ID) ([]byte, error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	data, err := get(ctx, client, strings.TrimSuffix(s.URL, "/")+"/o/"+id.Name(), bootpack.MaxSize)
	if err == nil {
		err = id.Verify(data)
	}
	return data, err
}
