package source

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Place has the two directories that a source writes to. Both exist. A source has a key, which names it whatever its
// content, and a state, which identifies its content as far as that is known without reading all of it.
type Place struct {
	Root string // the tree: empty, or what an interrupted Fill from the same source left
	Keep string // for files that outlive an interruption; removed when the tree is complete
}

// Progress says how much of a tree is filled.
type Progress struct {
	Done  int64  // bytes
	Total int64  // bytes; 0: unknown
	Note  string // what is being done, if the bytes do not tell; "": unchanged
}

// Made describes a complete tree.
type Made struct {
	Kind string `json:"kind"` // "oci", "tar"
	Name string `json:"name"` // the source as people write it: a reference, a path
	// "sha256:..." of the image's manifest or of the file; "" if there is none
	Digest string   `json:"digest,omitempty"`
	Notes  []string `json:"notes,omitempty"` // remarks for people, for example on set-uid programs
}

// Limits bounds the tree that an archive may unpack to.
type Limits struct {
	// MaxSize limits the bytes of the tree's files, with holes. 0: the free space of the tree's disk, and at most
	// maxRatio times the bytes that were read.
	MaxSize int64
}

// clear empties a tree's root directory.
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

// roomHint adds to the error of a full disk what to do.
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
