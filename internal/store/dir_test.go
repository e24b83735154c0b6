package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/image"
)

func newDir(t *testing.T) *Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func putObject(t *testing.T, d *Dir, data []byte) chunk.ID {
	t.Helper()
	w := d.NewWriter()
	defer w.Close()
	id, _, err := w.Put(t.Context(), data)
	if err == nil {
		err = w.Sync(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestWriter(t *testing.T) {
	d := newDir(t)
	w := d.NewWriter()
	defer w.Close()
	data := []byte("some bytes")
	id, isNew, err := w.Put(t.Context(), data)
	if err != nil || !isNew {
		t.Fatalf("first Put: new %v, %v", isNew, err)
	}
	if _, isNew, err = w.Put(t.Context(), data); err != nil || isNew {
		t.Errorf("second Put: new %v, %v", isNew, err)
	}
	if _, err := d.Get(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not durable can be read: %v", err)
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Get(t.Context(), id); err != nil || !bytes.Equal(got, data) {
		t.Errorf("Get: %q, %v", got, err)
	}
	if _, isNew, err = w.Put(t.Context(), data); err != nil || isNew {
		t.Errorf("Put of what is stored: new %v, %v", isNew, err)
	}
	if size, ok := d.Stat(id); !ok || size != int64(len(data)) {
		t.Errorf("Stat: %d, %v", size, ok)
	}
	f, err := d.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestWriterCloseLeavesNothing(t *testing.T) {
	d := newDir(t)
	w := d.NewWriter()
	if _, _, err := w.Put(t.Context(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if left, _ := os.ReadDir(d.incoming()); len(left) > 0 {
		t.Errorf("left in incoming: %v", left)
	}
}

// TestPutRepairsTruncatedObject: an object whose file is truncated is written again.
func TestPutRepairsTruncatedObject(t *testing.T) {
	d := newDir(t)
	data := bytes.Repeat([]byte("abc"), 1000)
	id := putObject(t, d, data)
	if err := os.Truncate(d.ObjectPath(id), 10); err != nil {
		t.Fatal(err)
	}
	var wrong *chunk.WrongBytesError
	if _, err := d.Get(t.Context(), id); !errors.As(err, &wrong) {
		t.Errorf("a truncated object: %v", err)
	}
	putObject(t, d, data)
	if _, err := d.Get(t.Context(), id); err != nil {
		t.Errorf("after it was put again: %v", err)
	}
}

func TestLock(t *testing.T) {
	d := newDir(t)
	unlock, err := d.TryLock("first")
	if err != nil {
		t.Fatal(err)
	}
	var locked *LockedError
	if _, err := d.TryLock("second"); !errors.As(err, &locked) || !strings.Contains(locked.Holder, "first") {
		t.Errorf("second lock: %v", err)
	}
	unlock()
	for _, left := range []string{
		filepath.Join(d.incoming(), chunk.Sum(nil).Name()), filepath.Join(d.manifests(), ".m.json.123"),
	} {
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if unlock, err = d.Lock(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for _, dir := range []string{d.incoming(), d.manifests()} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("the lock was taken and this was left in %s: %v", dir, left)
		}
	}
}

// putVersion stores a version of two chunks and a hole, and returns its objects by name.
func putVersion(t *testing.T, d *Dir, key minisign.PrivateKey) (Version, map[string]chunk.ID) {
	t.Helper()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]chunk.ID{"kernel": putObject(t, d, []byte("kernel"))}
	var entries []chunk.Entry
	for _, text := range []string{"a", "b"} {
		stored, codec := enc.Encode(bytes.Repeat([]byte(text), chunk.BlockSize))
		ids[text] = putObject(t, d, stored)
		entries = append(
			entries,
			chunk.Entry{RawSize: chunk.BlockSize, StoredSize: len(stored), Codec: codec, ID: ids[text]},
		)
	}
	entries = append(entries, chunk.Entry{RawSize: 5 * chunk.BlockSize, Codec: chunk.Zero})
	idx, err := chunk.NewIndex(entries, chunk.DefaultChunkSize, enc)
	if err != nil {
		t.Fatal(err)
	}
	ids["page"] = putObject(t, d, idx.Pages[0])
	ids["root"] = putObject(t, d, idx.Root)
	m := image.Manifest{
		Format: 1, Architecture: "amd64",
		Kernel: image.Kernel{Release: "6.1.0", Object: ids["kernel"], Size: 6},
		Root: image.Root{
			FileSystem: "erofs",
			Index:      ids["root"],
			Size:       idx.RawSize,
			ChunkSize:  chunk.DefaultChunkSize,
		},
	}
	v := Version{Provenance: []byte("{}")}
	if v.Manifest, err = m.Encode(); err != nil {
		t.Fatal(err)
	}
	v.Signature = image.Sign(key, v.Manifest)
	if v.Digest, err = d.PutVersion(v); err != nil {
		t.Fatal(err)
	}
	return v, ids
}

func TestVersions(t *testing.T) {
	d := newDir(t)
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := putVersion(t, d, key)
	got, err := d.GetVersion(v.Digest)
	if err != nil || !bytes.Equal(got.Manifest, v.Manifest) || !bytes.Equal(got.Signature, v.Signature) ||
		string(got.Provenance) != "{}" {
		t.Errorf("GetVersion: %+v, %v", got, err)
	}
	all, err := d.Versions()
	if err != nil || len(all) != 1 || all[0] != v.Digest {
		t.Errorf("Versions: %v, %v", all, err)
	}
	if _, err := d.GetVersion(image.Version([]byte("other"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a version that is not there: %v", err)
	}
	if _, err := d.GetVersion("sha256:../../etc/passwd"); err == nil {
		t.Error("a path was taken for a digest")
	}
	if err := os.WriteFile(d.ManifestPath(v.Digest), append(v.Manifest, ' '), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.GetVersion(v.Digest); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a changed manifest: %v", err)
	}
}
