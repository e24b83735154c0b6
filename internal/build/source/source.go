package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Place is where a source puts a tree. Both directories exist.
type Place struct {
	Root string // of the tree: empty, or what an interrupted filling from the same source left
	Keep string // for what outlives an interruption; removed when the tree is whole
}

// Progress says how far the filling of a tree is.
type Progress struct {
	Done  int64  // bytes
	Total int64  // bytes; 0: unknown
	Note  string // what is being done, where bytes do not say it; "" as before
}

// Made is what is known of a tree when it is whole.
type Made struct {
	Kind string `json:"kind"` // "oci", "tar"
	Name string `json:"name"` // of the source, as people write it: a reference, a path
	// "sha256:..." of the image's manifest or of the file; "" if there is none
	Digest string   `json:"digest,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what is worth knowing, such as programs that are set-uid
}

// Limits bound what a source may make of a few bytes.
type Limits struct {
	// MaxSize is the most bytes that the files of a tree may have, holes counted; 0: what the disk of the tree has
	// free, and no more than maxRatio times what was read.
	MaxSize int64
}

// clear empties a tree's root, which stays.
func (p Place) clear() error {
	names, err := os.ReadDir(p.Root)
	if err != nil {
		return fmt.Errorf("clear tree: %w", err)
	}
	for _, f := range names {
		if err := os.RemoveAll(filepath.Join(p.Root, f.Name())); err != nil {
			return fmt.Errorf("clear tree: %w", err)
		}
	}
	return nil
}

// roomHint says what to do about a full disk.
func roomHint(err error, dir string) error {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return err
	}
	return fmt.Errorf(
		"%w at %s; make room or choose another disk with --data, then run the same command again: it continues",
		err,
		dir,
	)
}
