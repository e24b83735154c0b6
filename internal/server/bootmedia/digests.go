package bootmedia

import (
	"sync"

	"pando/internal/media"
)

// Digests caches the digests of the right content of media, so that no kernel is read for nodes whose media are up to
// date.
type Digests struct {
	reading sync.Mutex // only one kernel and initramfs is read at a time, however many nodes request after a restart

	mu    sync.Mutex
	known map[string]string
}

// maxDigests bounds the cache; a site needs a few.
const maxDigests = 256

// of returns the digest for a key. If it is not cached, it calls read for the contents.
func (d *Digests) of(key string, read func() (media.K, error)) (string, error) {
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

func (d *Digests) get(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[key]
}

func (d *Digests) put(key, digest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDigests {
		d.known = map[string]string{}
	}
	d.known[key] = digest
}
