package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// sidecarCache reads the manifests and sidecars of a Remote. Another server may change a sidecar, so each is read
// again after some seconds. If the Remote does not answer, the last copy is good enough to boot with.
type sidecarCache struct {
	cache *remoteCache

	mu    sync.Mutex
	known map[string]cachedSidecar
	away  time.Time // until then existing copies are used without asking the Remote
}

type cachedSidecar struct {
	data  []byte // nil: the file does not exist
	asked time.Time
}

// How long an answer is valid, and how many are kept. Each registration of a node reads some of them.
const (
	sidecarFresh = 5 * time.Second
	sidecarsMost = 1024
	sidecarWait  = 5 * time.Second  // for an answer, if there is a copy
	sidecarAway  = 30 * time.Second // pause after no answer came
)

func (s *sidecarCache) read(path string) ([]byte, error) {
	name := s.cache.dir.remoteName(path)
	s.mu.Lock() // concurrent readers of a name wait for one answer
	defer s.mu.Unlock()
	k, ok := s.known[name]
	if !ok || time.Since(k.asked) > sidecarFresh {
		data, err := s.ask(name, path)
		if err != nil {
			return nil, err
		}
		if len(s.known) >= sidecarsMost {
			clear(s.known)
		}
		k = cachedSidecar{data, time.Now()}
		s.known[name] = k
	}
	if k.data == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return k.data, nil
}

// askAgain drops the answers for some names.
func (s *sidecarCache) askAgain(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		delete(s.known, s.cache.dir.remoteName(p))
	}
}

// ask reads a name from the Remote and keeps a copy in the directory. It returns nil if the name does not exist.
func (s *sidecarCache) ask(name, path string) ([]byte, error) {
	wait := remoteTime
	kept, keptErr := os.ReadFile(path)
	if keptErr == nil {
		if wait = sidecarWait; time.Now().Before(s.away) {
			return kept, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	data, err := s.cache.readName(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(path)
		return nil, nil
	case err != nil && keptErr == nil:
		s.away = time.Now().Add(sidecarAway)
		return kept, nil
	case err != nil:
		return nil, err
	case keptErr != nil || !bytes.Equal(kept, data):
		return data, WriteFile(path, data, 0o644)
	}
	return data, nil
}

// write writes a file. The lease must be held.
func (s *sidecarCache) write(path string, data []byte) error {
	if err := s.cache.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	name := s.cache.dir.remoteName(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
	return s.cache.remote.Put(ctx, name, data)
}

// remove removes a file. The lease must be held.
func (s *sidecarCache) remove(path string) error {
	if err := s.cache.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.cache.dir.remoteName(path)
	delete(s.known, name)
	if err := s.cache.remote.Remove(ctx, name); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(path))
}

// modified returns when a file was last written, by the clock of the service; zero if it does not exist, and now if
// the service does not answer.
func (s *sidecarCache) modified(path string) time.Time {
	ctx, cancel := remoteContext()
	defer cancel()
	f, err := s.cache.remote.Stat(ctx, s.cache.dir.remoteName(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return time.Time{}
	case err != nil:
		return time.Now()
	}
	return f.Modified
}

// names lists the files below manifests.
func (s *sidecarCache) names() (out []string, err error) {
	ctx, cancel := remoteContext()
	defer cancel()
	err = s.cache.remote.List(ctx, manifestsPrefix, func(f RemoteFile) error {
		out = append(out, filepath.Base(f.Name))
		return nil
	})
	slices.Sort(out)
	return out, err
}
