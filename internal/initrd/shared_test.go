package initrd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"

	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

// The shared initramfs is an object that many boots have: the same parts give the same id, other parts another. It ends
// an archive first, and behind its kernel it ends at a multiple of four bytes.
func TestShared(t *testing.T) {
	dir, err := store.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	drivers := []image.Driver{{Name: "base", Object: putObject(t, dir, "base drivers")},
		{Name: "net", Object: putObject(t, dir, "net")}}
	agent, disks := []byte("agent cpio"), []byte("disks")
	s := NewShared(dir)
	seen := map[string]string{}
	for name, x := range map[string]struct {
		kernel  int64
		drivers []image.Driver
		disks   []byte
	}{
		"all":        {1000, drivers, disks},
		"no disks":   {1000, drivers, nil},
		"one driver": {1000, drivers[:1], nil},
		"odd kernel": {1003, drivers, nil},
	} {
		id, err := s.Of(x.kernel, x.drivers, x.disks, agent)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Of(x.kernel, x.drivers, x.disks, agent); again != id || err != nil {
			t.Errorf("%s: %v, then %v (%v)", name, id, again, err)
		}
		if was := seen[id.Object]; was != "" {
			t.Errorf("%s has the id of %s", name, was)
		}
		seen[id.Object] = name
		f, err := s.Open(id.Object)
		if err != nil || f == nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, err := io.ReadAll(f)
		f.Close()
		sum := sha256.Sum256(data)
		if err != nil || hex.EncodeToString(sum[:]) != id.Object || int64(len(data)) != id.Size {
			t.Errorf("%s: %d bytes, %v; want %+v", name, len(data), err, id)
		}
		if (x.kernel+id.Size)%4 != 0 || !bytes.Contains(data[:124], []byte("TRAILER!!!")) ||
			!bytes.Contains(data, agent) || bytes.Contains(data, []byte("disks")) != (x.disks != nil) {
			t.Errorf("%s: %q", name, data)
		}
	}
	if f, err := s.Open(strings.Repeat("0", 64)); f != nil || err != nil {
		t.Errorf("no such object: %v, %v", f, err)
	}
	if _, err := s.Of(1, []image.Driver{{Name: "gone", Object: chunk.Sum([]byte("gone"))}}, nil, agent); err == nil {
		t.Error("drivers that are not in the store are in an initramfs")
	}
}

func putObject(t *testing.T, dir *store.Dir, data string) chunk.ID {
	t.Helper()
	w := dir.NewWriter()
	defer w.Close()
	id, _, err := w.Put(t.Context(), []byte(data))
	if err == nil {
		err = w.Sync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}
