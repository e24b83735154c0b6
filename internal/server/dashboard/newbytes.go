package dashboard

import (
	"context"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
)

// newBytes caches what is new in versions: to compute it, every index of an image is read.
type newBytes struct {
	mu    sync.Mutex
	known map[string]newOf // by image
}

// newOf holds the new bytes of each version of an image. versions identifies the versions that it was computed for.
type newOf struct {
	versions string
	bytes    map[fleet.Digest]int64
}

// of returns for each version of an image how many bytes are in no older version. On an error it returns nil, and the
// page is shown without them.
func (n *newBytes) of(ctx context.Context, client *api.Client, image api.Image) map[fleet.Digest]int64 {
	key := ""
	for _, v := range image.Versions {
		key += string(v.Digest)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if k, ok := n.known[image.Name]; ok && k.versions == key {
		return k.bytes
	}
	history, err := client.ImageHistory(ctx, image.Name)
	if err != nil {
		return nil
	}
	k := newOf{key, map[fleet.Digest]int64{}}
	for _, v := range history.Versions {
		k.bytes[v.Digest] = v.New
	}
	if n.known == nil {
		n.known = map[string]newOf{}
	}
	n.known[image.Name] = k
	return k.bytes
}
