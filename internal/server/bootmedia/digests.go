package bootmedia

import (
	"sync"

	"pando/internal/media"
)

// Digests remembers the digest of what a medium should have, so that no kernel is read for nodes whose media have it.
type Digests struct {
	reading sync.Mutex // one kernel and initramfs is read at a time, however many nodes ask after a restart

	mu    sync.Mutex
	known map[string]string
}

// maxDigests bounds them; a site has a few.
const maxDigests = 256

// of returns the digest for a key. If it is not known, read makes the contents.
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
