package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/testkit"
)

// TestStore has the tests that every store passes, in a directory or in a bucket.
func TestStore(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store")
		conforms(t, func(t *testing.T) *store.Dir {
			d, err := store.OpenDir(path)
			if err != nil {
				t.Fatal(err)
			}
			return d
		})
	})
	t.Run("versitygw", func(t *testing.T) {
		inBucket(t, service(t))
	})
	t.Run("ceph", func(t *testing.T) {
		inBucket(t, ceph(t))
	})
}

func inBucket(t *testing.T, s *testkit.S3) {
	b := newBucket(t, s, nil)
	touched(t, b)
	conforms(t, func(t *testing.T) *store.Dir { return newCache(t, again(t, b), DefaultCache) })
}

// conforms is the suite. open opens the same store again, as another process would.
func conforms(t *testing.T, open func(*testing.T) *store.Dir) {
	objects(t, open(t), open(t))
	versions(t, open(t), open(t))
	exclusive(t, open(t), open(t))
	whole(t, open(t), open(t))
	swept(t, open(t), open(t))
}

func lock(t *testing.T, d *store.Dir) (unlock func()) {
	t.Helper()
	unlock, err := d.Lock(t.Context(), "conformance")
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// objects: an object written by one process is read by another; a second Put reports that it exists; a missing object
// is fs.ErrNotExist.
func objects(t *testing.T, one, other *store.Dir) {
	defer lock(t, one)()
	w := one.NewWriter()
	defer w.Close()
	data := [][]byte{{}, []byte("a"), bytes.Repeat([]byte("large"), 3<<20)}
	var ids []chunk.ID
	for _, b := range data {
		id, isNew, err := w.Put(t.Context(), b)
		if err != nil || !isNew {
			t.Fatalf("put %d bytes: new %v, %v", len(b), isNew, err)
		}
		ids = append(ids, id)
	}
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if got, err := other.Get(t.Context(), id); err != nil || !bytes.Equal(got, data[i]) {
			t.Errorf("get of %d bytes: %d bytes, %v", len(data[i]), len(got), err)
		}
		if size, ok := other.Stat(id); !ok || size != int64(len(data[i])) {
			t.Errorf("stat of %d bytes: %d, %v", len(data[i]), size, ok)
		}
		if _, isNew, err := w.Put(t.Context(), data[i]); err != nil || isNew {
			t.Errorf("put again: new %v, %v", isNew, err)
		}
	}
	missing := chunk.Sum([]byte("nowhere"))
	if _, err := other.Get(t.Context(), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get of what is not there: %v", err)
	}
	if _, err := other.Open(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open of what is not there: %v", err)
	}
	if _, ok := other.Stat(missing); ok {
		t.Error("stat of what is not there")
	}
}

// versions: manifests with their sidecars, and packs that are replaced.
func versions(t *testing.T, one, other *store.Dir) {
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := testkit.SmallVersion(t.Context(), one, key, "kernel", 3)
	if err != nil {
		t.Fatal(err)
	}
	v, err := other.GetVersion(digest)
	if err != nil || len(v.Signature) == 0 || len(v.Provenance) == 0 || image.Version(v.Manifest) != digest {
		t.Errorf(
			"version %s: %d bytes of signature, %d of provenance, %v",
			digest,
			len(v.Signature),
			len(v.Provenance),
			err,
		)
	}
	if all, err := other.Versions(); err != nil || !slices.Equal(all, []fleet.Digest{digest}) {
		t.Errorf("versions: %v, %v", all, err)
	}
	if _, err := other.GetVersion(fleet.Digest(chunk.Sum(nil).String())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a version that is not there: %v", err)
	}
	unlock := lock(t, one)
	record := bootpack.Record{Object: chunk.Sum([]byte("map")), Size: 3, Made: time.Now().UTC()}
	if err := one.PutPack(digest, record); err != nil {
		t.Error(err)
	}
	unlock()
	if got, err := other.Packs(digest); err != nil || len(got) != 1 || got[0].Object != record.Object {
		t.Errorf("packs: %v, %v", got, err)
	}
}

// exclusive: there is one writer. The next one gets an error with its name, and gets the lock later.
func exclusive(t *testing.T, one, other *store.Dir) {
	unlock, err := one.TryLock("the first")
	if err != nil {
		t.Fatal(err)
	}
	var locked *store.LockedError
	if _, err := other.TryLock("the second"); !errors.As(err, &locked) ||
		!bytes.Contains([]byte(locked.Holder), []byte("the first")) {
		t.Errorf("a second writer: %v", err)
	}
	unlock()
	unlock, err = other.TryLock("the second")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// whole: a check reads everything, and finds missing and unused objects.
func whole(t *testing.T, one, other *store.Dir) {
	report, err := other.Check(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if report.Versions != 1 || report.Objects != 3+6 || report.Unused != 3 {
		t.Errorf("check: %d versions, %d objects, %d unused", report.Versions, report.Objects, report.Unused)
	}
	if len(report.Problems) != 1 || report.Problems[0].Object != chunk.Sum([]byte("map")) {
		t.Errorf("the pack whose map was never written: %v", report.Problems)
	}
	unlock := lock(t, one)
	defer unlock()
	c, err := one.CollectPacks(t.Context(), func(fleet.Digest, bootpack.Replaced) bool { return true })
	if err != nil || c.Objects != 0 {
		t.Errorf("collect: %+v, %v", c, err)
	}
}

// swept: everything that nothing holds is removed completely.
func swept(t *testing.T, one, other *store.Dir) {
	unlock := lock(t, one)
	defer unlock()
	opt := store.SweepOptions{Hold: func(fleet.Digest) bool { return false }, Before: time.Now().Add(-time.Hour)}
	if s, err := one.Sweep(t.Context(), opt); err != nil || len(s.Versions) > 0 || s.Objects > 0 || s.Fresh != 3 {
		t.Errorf("all is fresh: %+v, %v", s, err)
	}
	opt.Before = time.Now().Add(time.Hour)
	if s, err := one.Sweep(t.Context(), opt); err != nil || len(s.Versions) != 1 || s.Objects != 9 {
		t.Errorf("nothing is fresh: %+v, %v", s, err)
	}
	report, err := other.Check(t.Context(), nil, nil)
	if err != nil || report.Objects != 0 || len(report.Problems) != 0 {
		t.Errorf("what is left: %+v, %v", report, err)
	}
	if all, err := other.Versions(); err != nil || len(all) != 0 {
		t.Errorf("versions that are left: %v, %v", all, err)
	}
}

// touched: Touch renews the time of an object, and does not change its bytes.
func touched(t *testing.T, b *Bucket) {
	const name = "touched"
	if err := b.Put(t.Context(), name, []byte("text")); err != nil {
		t.Fatal(err)
	}
	before, err := b.Stat(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for ctx, end := context.WithTimeout(t.Context(), 10*time.Second); ; { // services count in seconds
		if err := b.Touch(ctx, name); err != nil {
			end()
			t.Fatal(err)
		}
		after, err := b.Stat(ctx, name)
		if err != nil || after.Size != 4 {
			t.Errorf("after: %+v, %v", after, err)
		}
		if after.Modified.After(before.Modified) {
			end()
			break
		}
	}
	if got, err := b.Get(t.Context(), name); err != nil {
		t.Error(err)
	} else if text, err := io.ReadAll(got); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := b.Remove(t.Context(), name, "never there"); err != nil {
		t.Error(err)
	}
}
