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

// recordingsFile, in the data directory, lists the nodes whose next boot is recorded until a mark.
const recordingsFile = "recordings.json"

// damagedSuffix is added to the name of a file that cannot be read.
const damagedSuffix = ".damaged"

// Recordings holds the operators' requests to record boots until a mark. A request stays until the node has sent such a
// trace, so that a failed boot does not use it up.
type Recordings struct {
	path string
	mu   sync.Mutex
	by   map[string]Wish // by node
}

// Wish is the request for one node.
type Wish struct {
	Until string    `json:"until"`
	Asked time.Time `json:"asked"`
}

// OpenRecordings reads the requests from the data directory.
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

// setAside renames a file that cannot be read, so that an administrator can inspect it. The server starts without
// requests, because boots matter more than recordings.
func (r *Recordings) setAside(damage error, log *slog.Logger) {
	err := os.Rename(r.path, r.path+damagedSuffix) // if this fails, the next request overwrites the file
	log.Warn(
		"requests to record boots are lost: their file cannot be read",
		"file",
		r.path,
		"err",
		errors.Join(damage, err),
		"hint",
		"request them again with `pando boot record NODE --until MARK`; the file is kept as "+r.path+damagedSuffix,
	)
}

// Until returns the mark until which a node's next boot is recorded, or "".
func (r *Recordings) Until(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[node].Until
}

// all returns a copy of the requests.
func (r *Recordings) all() map[string]Wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.by)
}

// Set stores the request for a node. A Wish without Until removes it.
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

// done removes the request for a node that has sent its recording.
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
		return fmt.Errorf("save which boots to record: %w", err)
	}
	return nil
}
