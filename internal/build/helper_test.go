package build

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"

	"pando/internal/build/initramfs"
	"pando/internal/chunk"
	"pando/internal/image"
	"pando/internal/store"
)

var update = flag.Bool("update", false, "rewrite golden files")

// testKey returns the same key in every test, so that signatures are the same, too.
func testKey(t testing.TB) (string, minisign.PrivateKey) {
	t.Helper()
	pub, key, err := minisign.GenerateKey(bytes.NewReader(bytes.Repeat([]byte{7}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	return pub.String(), key
}

// testOptions returns options for a build from a directory, with tiny drivers.
func testOptions(t testing.TB, data, dir string) Options {
	t.Helper()
	d, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		t.Fatal(err)
	}
	_, key := testKey(t)
	return Options{
		FromDir: dir, Store: d, Work: filepath.Join(data, "work"), Keys: []minisign.PrivateKey{key}, Builder: "test",
		anyInit: true,
		drivers: func(context.Context, initramfs.DriverOptions) ([]initramfs.DriverCPIO, error) {
			return []initramfs.DriverCPIO{{Name: "base", Data: []byte("drv")}}, nil
		},
	}
}

func mustBuild(t testing.TB, opt Options) Result {
	t.Helper()
	r, err := Image(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkStore fails the test unless the store is good and has the given number of versions.
func checkStore(t testing.TB, d *store.Dir, versions int) {
	t.Helper()
	pub, _ := testKey(t)
	r, err := d.Check(t.Context(), []string{pub}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		t.Errorf("store: %s", p)
	}
	if r.Versions != versions {
		t.Errorf("the store has %d whole versions, want %d", r.Versions, versions)
	}
}

// rawOf extracts a root file system from the store, as a node would read it.
func rawOf(t *testing.T, d *store.Dir, m image.Manifest) string {
	t.Helper()
	get := func(id chunk.ID) []byte {
		b, err := d.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	root, err := chunk.DecodeRoot(get(m.Root.Index))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "root.erofs"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	off := int64(0)
	for i, ref := range root.Pages {
		page, err := root.DecodePage(new(chunk.Decoder), i, get(ref.ID))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Codec != chunk.Zero {
				raw := make([]byte, e.RawSize)
				if err := new(chunk.Decoder).Decode(raw, get(e.ID), e.Codec); err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt(raw, off); err != nil {
					t.Fatal(err)
				}
			}
			off += int64(e.RawSize)
		}
	}
	if off != m.Root.Size {
		t.Fatalf("the index covers %d bytes, the manifest says %d", off, m.Root.Size)
	}
	if err := f.Truncate(off); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}
