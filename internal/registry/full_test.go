package registry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// smallDisk mounts a file system with this many bytes and returns its directory.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a small disk")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("this machine does not mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// eachDisk runs a test on a small disk with each file system, because they report free room differently.
func eachDisk(t *testing.T, bytes int, test func(t *testing.T, dir string)) {
	t.Run("tmpfs", func(t *testing.T) { test(t, smallDisk(t, bytes)) })
	t.Run("ext4", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root: mounts a small disk")
		}
		disk, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
		f, err := os.Create(disk)
		if err == nil {
			err = errors.Join(f.Truncate(int64(bytes)), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range [][]string{
			{"mkfs.ext4", "-q", "-b", "4096", "-O", "^has_journal", "-m", "0", disk},
			{"mount", "-o", "loop", disk, dir},
		} {
			if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
				t.Skipf("this machine does not mount an ext4 of its own: %v: %v\n%s", c, err, out)
			}
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
		test(t, dir)
	})
}

// fill takes all free room with a file; removing the file frees it.
func fill(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "fill")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, os.Getpagesize()))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	return path
}

// TestFullDisk: confirmed changes are stored and refused ones are not. The registry continues when there is room
// again. This includes changes larger than SQLite's page cache.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 12<<20)
	r, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	node := func(name string, n int) fleet.Node {
		d := aNode(name, 0)
		d.MACs = []fleet.MAC{{2, 1, 0, 0, byte(n >> 8), byte(n)}}
		return d
	}
	must(t, r, func(tx *Tx) error { return tx.CreateNode(node("before", 0)) })

	filler := fill(t, dir)
	confirmed := map[string]bool{"before": true}
	var mu sync.Mutex
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 60 {
				n := 1 + w*60 + i
				name := fmt.Sprintf("pc%d", n)
				err := r.Update(t.Context(), func(tx *Tx) error { return tx.CreateNode(node(name, n)) })
				if err != nil &&
					(!errors.Is(err, ErrFull) || !strings.Contains(err.Error(), filepath.Join(dir, File))) {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				confirmed[name] = err == nil
				mu.Unlock()
			}
		})
	}
	large := r.Update(t.Context(), func(tx *Tx) error {
		g := fleet.Group{
			Name:     "large",
			Settings: fleet.Settings{AuthorizedKeys: new(slices.Repeat([]string{"ssh-ed25519 AAAA me@here"}, 600_000))},
		}
		return tx.CreateGroup(g)
	})
	if !errors.Is(large, ErrFull) {
		t.Errorf("a large change: %v", large)
	}
	if _, err := r.Append(t.Context(), anEvent("b1", trace.Init, trace.Info)); !errors.Is(err, ErrFull) {
		t.Errorf("an event: %v", err)
	}
	writers.Wait()
	checkNodes(t, r, confirmed)

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	must(t, r, func(tx *Tx) error { return tx.CreateNode(node("after", 9999)) })
	if _, err := r.Append(t.Context(), anEvent("b1", trace.Init, trace.End)); err != nil {
		t.Error(err)
	}
	confirmed["after"] = true
	checkNodes(t, r, confirmed)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again := openIn(t, dir)
	checkNodes(t, again, confirmed)
	if _, err := again.Events(t.Context(), EventFilter{}); err != nil || again.Last() != 1 {
		t.Errorf("last event %d, %v", again.Last(), err)
	}
}

// checkNodes checks that exactly the nodes exist whose creation was confirmed.
func checkNodes(t *testing.T, r *Registry, confirmed map[string]bool) {
	t.Helper()
	there := map[string]bool{}
	for _, n := range read(t, r, (*Tx).Nodes) {
		there[n.Name] = true
		if !confirmed[n.Name] {
			t.Errorf("%s was refused, and is there", n.Name)
		}
	}
	for name, ok := range confirmed {
		if ok && !there[name] {
			t.Errorf("%s was confirmed, and is lost", name)
		}
	}
}

// TestOpenOnFullDisk: the error says what to do.
func TestOpenOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	filler := fill(t, dir)
	_, err := Open(t.Context(), Options{Dir: dir})
	var file *FileError
	if !errors.As(err, &file) || !strings.Contains(file.Hint(), "the disk is full") {
		t.Fatalf("%v", err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	openIn(t, dir)
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
