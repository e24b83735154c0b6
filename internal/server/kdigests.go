package server

import (
	"sync"

	"pando/internal/media"
)

// kDigests remembers what K of a medium is, so that the nodes that have it cost no reading of kernels.
type kDigests struct {
	reading sync.Mutex // one K is read at a time, however many ask after a restart

	mu    sync.Mutex
	known map[string]string
}

// maxKDigests bounds them; a site has a few.
const maxKDigests = 256

// of is the digest of K, which is read for it when it is not known.
func (d *kDigests) of(key string, read func() (media.K, error)) (string, error) {
	if known := d.get(key); known != "" {
		return known, nil
	}
	d.reading.Lock()
	defer d.reading.Unlock()
	if known := d.get(key); known != "" {
		return known, nil
	}
	k, err := read()
	if err != nil {
		return "", err
	}
	digest := k.Digest()
	d.put(key, digest)
	return digest, nil
}

func (d *kDigests) get(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[key]
}

func (d *kDigests) put(key, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxKDigests {
		d.known = map[string]string{}
	}
	d.known[key] = digest
}
