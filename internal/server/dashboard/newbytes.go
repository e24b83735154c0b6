package dashboard

import (
	"context"
	"sync"

	"pando/internal/api"
	"pando/internal/fleet"
)

// newBytes remembers what is new in versions: to find out, every index of an image is read.
type newBytes struct {
	mu    sync.Mutex
	known map[string]newOf // by image
}

// newOf is what is new in each version of an image, which had these.
type newOf struct {
	versions string
	bytes    map[fleet.Digest]int64
}

// of is how many bytes each version of an image has that no older one has. Without an answer the rest of a page is
// still worth seeing.
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
