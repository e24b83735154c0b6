package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/registry"
)

// onSmallDisk puts a site's data on a disk of its own.
func onSmallDisk(t *testing.T) func(*Config) {
	return func(c *Config) {
		if os.Geteuid() != 0 {
			t.Skip("needs root: mounts a small disk")
		}
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("tmpfs", c.Dir, "tmpfs", 0, "size=64m,mode=0700"); err != nil {
			t.Skipf("this machine does not mount a tmpfs: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(c.Dir, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
}

// fillDisk writes until the disk is full.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	for n, size := 0, 1<<20; size >= 1; n++ {
		err := os.WriteFile(filepath.Join(dir, "filler"+time.Duration(n).String()), make([]byte, size), 0o600)
		if errors.Is(err, unix.ENOSPC) {
			size /= 16
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// On a completely full disk the registry can only delete names with the help of its reserve. Unused objects are removed
// all the same, and then the registry can write again.
func TestCollectOnAFullDisk(t *testing.T) {
	for name, loose := range map[string]bool{"versions": false, "objects": true} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, onSmallDisk(t))
			v := s.addVersions("first", "second", "third")
			s.registry.Relieve(t.Context())
			if loose {
				s.demandObject()
			}
			fillDisk(t, s.cfg.Dir)
			write := func() error {
				return s.registry.Update(t.Context(), func(tx *registry.Tx) error {
					return tx.CreateGroup(
						fleet.Group{
							Name:   "large",
							Image:  "lab",
							Follow: true,
							Settings: fleet.Settings{
								AuthorizedKeys: new(slices.Repeat([]string{"ssh-ed25519 AAAA me@here"}, 8000)),
							},
						},
					)
				})
			}
			if err := write(); !errors.Is(err, registry.ErrFull) {
				t.Fatalf("the disk is not full: %v", err)
			}
			s.later(48 * time.Hour)
			if out := s.gc(t); len(gone(out)) != 2 || out.Objects == 0 {
				t.Errorf("%+v", out)
			}
			if left, err := s.store.Versions(); err != nil || len(left) != 1 || left[0] != v[2] {
				t.Errorf("left are %v, %v", left, err)
			}
			if err := write(); errors.Is(err, registry.ErrFull) && loose {
				t.Errorf("after the collection: %v", err)
			}
		})
	}
}

// demandObject adds an unused object of several megabytes.
func (s *site) demandObject() {
	s.t.Helper()
	unlock, err := s.store.Lock(s.t.Context(), "test")
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlock()
	w := s.store.NewWriter()
	defer w.Close()
	if _, _, err := w.Put(s.t.Context(), program(9, 16<<20)); err != nil {
		s.t.Fatal(err)
	}
	if err := w.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}
