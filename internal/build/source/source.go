package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Place has the directories that a source writes to. Both exist.
type Place struct {
	Root string // of the tree: empty, or what an interrupted filling from the same source left
	Keep string // for what outlives an interruption; removed when the tree is whole
}

// Progress is how much of a tree is filled.
type Progress struct {
	Done  int64  // bytes
	Total int64  // bytes; 0: unknown
	Note  string // what is being done, where bytes do not say it; "" as before
}

// Made describes a complete tree.
type Made struct {
	Kind string `json:"kind"` // "oci", "tar"
	Name string `json:"name"` // of the source, as people write it: a reference, a path
	// "sha256:..." of the image's manifest or of the file; "" if there is none
	Digest string   `json:"digest,omitempty"`
	Notes  []string `json:"notes,omitempty"` // what is worth knowing, such as programs that are set-uid
}

// Limits bound the tree that an archive of few bytes can become.
type Limits struct {
	// MaxSize is the limit for the bytes of the tree's files, holes included. 0: the free space of the tree's disk, and
	// at most maxRatio times the bytes that were read.
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

// roomHint reports what to do about a full disk.
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
