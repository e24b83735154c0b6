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

// packPatience is how long a boot waits for the map of its boot pack, a few kilobytes. A boot without the map
// receives more bytes. On a network with an announce delay it waits longer.
const packPatience = 5 * time.Second

// Pack names the map of a boot pack that is to be fetched.
type Pack struct {
	Ref     fleet.PackRef
	Version fleet.Digest // that the boot pack must belong to
	Keys    []string     // one of these keys must have signed it
	Failed  func(Source, error)
}

// From fetches the map from the first source that has it, and verifies it. It calls Failed for each peer that failed.
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
		// The bytes match the assigned digest, so another source has the same: do not try another.
		p, err := bootpack.Verify(data, []byte(f.Ref.Signature), f.Version, f.Keys...)
		return p, data, err
	}
	return bootpack.Map{}, nil, errors.Join(errs...)
}

// object fetches a small object and verifies it.
func (s Source) object(ctx context.Context, client *http.Client, id chunk.ID) ([]byte, error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	data, err := get(ctx, client, strings.TrimSuffix(s.URL, "/")+"/o/"+id.Name(), bootpack.MaxSize)
	if err == nil {
		err = id.Verify(data)
	}
	return data, err
}
