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

// smallFiles reads the manifests and sidecars of a Remote. Another server may change a sidecar, so each is asked
// for again now and then; when the Remote does not answer, what was read last is still true enough to boot with.
type smallFiles struct {
	far *far

	mu    sync.Mutex
	known map[string]smallFile
	away  time.Time // until then the Remote is not asked for what there is a copy of
}

type smallFile struct {
	data  []byte // nil: there is no such file
	asked time.Time
}

// How long an answer is good for, and how many are remembered. Each hello of a node reads some of them.
const (
	smallFresh = 5 * time.Second
	smallMost  = 1024
	smallWait  = 5 * time.Second  // for an answer, when there is a copy
	smallAway  = 30 * time.Second // after none came
)

func (s *smallFiles) read(path string) ([]byte, error) {
	name := s.far.dir.remoteName(path)
	s.mu.Lock() // two who want the same wait for one answer
	defer s.mu.Unlock()
	k, ok := s.known[name]
	if !ok || time.Since(k.asked) > smallFresh {
		data, err := s.ask(name, path)
		if err != nil {
			return nil, err
		}
		if len(s.known) >= smallMost {
			clear(s.known)
		}
		k = smallFile{data, time.Now()}
		s.known[name] = k
	}
	if k.data == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return k.data, nil
}

// askAgain forgets the answers about some names.
func (s *smallFiles) askAgain(paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range paths {
		delete(s.known, s.far.dir.remoteName(p))
	}
}

// ask reads a name, nil if there is none, and keeps a copy in the directory.
func (s *smallFiles) ask(name, path string) ([]byte, error) {
	wait := remoteTime
	kept, keptErr := os.ReadFile(path)
	if keptErr == nil {
		if wait = smallWait; time.Now().Before(s.away) {
			return kept, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	data, err := s.far.readName(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_ = os.Remove(path)
		return nil, nil
	case err != nil && keptErr == nil:
		s.away = time.Now().Add(smallAway)
		return kept, nil
	case err != nil:
		return nil, err
	case keptErr != nil || !bytes.Equal(kept, data):
		return data, WriteFile(path, data, 0o644)
	}
	return data, nil
}

// write puts a file. The lease is held.
func (s *smallFiles) write(path string, data []byte) error {
	if err := s.far.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	name := s.far.dir.remoteName(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, name)
	return s.far.remote.Put(ctx, name, data)
}

// remove removes a file. The lease is held.
func (s *smallFiles) remove(path string) error {
	if err := s.far.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.far.dir.remoteName(path)
	delete(s.known, name)
	if err := s.far.remote.Remove(ctx, name); err != nil {
		return err
	}
	return ignoreMissing(os.Remove(path))
}

// modified is when a file was put last, by the clock of the service; zero when there is none. One that cannot be
// asked for may have been put just now.
func (s *smallFiles) modified(path string) time.Time {
	ctx, cancel := remoteContext()
	defer cancel()
	f, err := s.far.remote.Stat(ctx, s.far.dir.remoteName(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return time.Time{}
	case err != nil:
		return time.Now()
	}
	return f.Modified
}

// names lists the files below manifests.
func (s *smallFiles) names() (out []string, err error) {
	ctx, cancel := remoteContext()
	defer cancel()
	err = s.far.remote.List(ctx, manifestsPrefix, func(f RemoteFile) error {
		out = append(out, filepath.Base(f.Name))
		return nil
	})
	slices.Sort(out)
	return out, err
}
