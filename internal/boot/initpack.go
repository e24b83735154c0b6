package boot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
)

// packPatience is how long a boot waits for the map of its boot pack, a few kilobytes. Without it the boot takes more
// bytes, and as long as a boot took before there were packs. Where word is late it waits longer.
const packPatience = 5 * time.Second

// packFetch is a map that is to be had.
type packFetch struct {
	ref     fleet.PackRef
	version fleet.Digest // that it has to be of
	keys    []string     // one of which has to have signed it
	failed  func(startSource, error)
}

// from gets and verifies the map; anybody will do.
func (f packFetch) from(ctx context.Context, client *http.Client, sources []startSource) (image.Pack, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, max(packPatience, 4*lateness(sources)))
	defer cancel()
	id, err := chunk.ParseID(f.ref.Object)
	if err != nil {
		return image.Pack{}, nil, fmt.Errorf("assigned boot pack: %w", err)
	}
	var errs []error
	for _, source := range sources {
		data, err := source.object(ctx, client, id)
		switch {
		case err != nil && source.peer:
			f.failed(source, err)
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", source.url, err))
			continue
		}
		// These are the bytes that were assigned: another server has no others.
		p, err := image.VerifyPack(data, []byte(f.ref.Signature), f.version, f.keys...)
		return p, data, err
	}
	return image.Pack{}, nil, errors.Join(errs...)
}

// object is a small object, verified.
func (s startSource) object(ctx context.Context, client *http.Client, id chunk.ID) ([]byte, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	data, err := get(ctx, client, strings.TrimSuffix(s.url, "/")+"/o/"+id.Name(), image.MaxPack)
	if err == nil {
		err = id.Verify(data)
	}
	return data, err
}
