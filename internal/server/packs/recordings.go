package packs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pando/internal/store"
)

// recordingsFile has the nodes whose next boot records until a mark, in the data directory.
const recordingsFile = "recordings.json"

// damagedSuffix is added to the name of a file that cannot be read.
const damagedSuffix = ".damaged"

// Recordings are the boots that an operator asked to be recorded until a mark. A request stays until the node has sent
// such a trace, so that a boot that fails does not use it up.
type Recordings struct {
	path string
	mu   sync.Mutex
	by   map[string]Wish // by node
}

// Wish is what one node is asked for.
type Wish struct {
	Until string    `json:"until"`
	Asked time.Time `json:"asked"`
}

// OpenRecordings reads which boots are to be recorded.
func OpenRecordings(dir string, log *slog.Logger) (*Recordings, error) {
	r := &Recordings{path: filepath.Join(dir, recordingsFile), by: map[string]Wish{}}
	data, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which boots to record: %w", err)
	}
	by := map[string]Wish{}
	if err := json.Unmarshal(data, &by); err != nil {
		r.setAside(err, log)
		return r, nil
	}
	maps.Copy(r.by, by)
	return r, nil
}

// setAside renames a file that cannot be read, so that an administrator can look at it, and the server starts without
// requests. Boots matter more than recordings.
func (r *Recordings) setAside(damage error, log *slog.Logger) {
	err := os.Rename(r.path, r.path+damagedSuffix) // the next wish is written in its place, if this fails
	log.Warn(
		"no boot is to be recorded any more: the file that says which cannot be read",
		"file",
		r.path,
		"err",
		errors.Join(damage, err),
		"hint",
		"ask again with `pando boot record NODE --until MARK`; the file is kept as "+r.path+damagedSuffix,
	)
}

// Until names the mark that a node's next boot records until, "" for none.
func (r *Recordings) Until(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[node].Until
}

// all returns a copy of what is asked for.
func (r *Recordings) all() map[string]Wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.by)
}

// Set asks a node, or with "" no longer.
func (r *Recordings) Set(node string, w Wish) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.Until == "" && r.by[node].Until == "" {
		return nil
	}
	before, had := r.by[node]
	if r.by[node] = w; w.Until == "" {
		delete(r.by, node)
	}
	err := r.save()
	if err != nil {
		delete(r.by, node)
		if had {
			r.by[node] = before
		}
	}
	return err
}

// done takes what a node was asked for, once it has answered.
func (r *Recordings) done(node, until string) error {
	if until == "" || r.Until(node) != until {
		return nil
	}
	return r.Set(node, Wish{})
}

func (r *Recordings) save() error {
	data, err := json.Marshal(r.by)
	if err == nil {
		err = store.WriteFile(r.path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep which boots to record: %w", err)
	}
	return nil
}
