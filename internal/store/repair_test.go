package store

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// twoStores returns a store with a version, a pack and an unused object, and a copy of it.
func twoStores(t *testing.T) (d, copied *Dir, v fleet.Digest, public string) {
	t.Helper()
	pub, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	d = newDir(t)
	version, _ := putVersion(t, d, key)
	putPack(t, d, key, version.Digest, "")
	putObject(t, d, []byte("unused"))
	copied = newDir(t)
	if err := os.RemoveAll(copied.path); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied.path, os.DirFS(d.path)); err != nil {
		t.Fatal(err)
	}
	return d, copied, version.Digest, pub.String()
}

// files lists all files of objects and manifests.
func files(t *testing.T, d *Dir) (out []string) {
	t.Helper()
	for _, dir := range []string{d.objects(), d.manifests()} {
		err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
			if err == nil && !f.IsDir() {
				out = append(out, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// repairSource reports whether TestFlippedBitBesideAManifest tests the file, and not this test.
func repairSource(path string) bool {
	return strings.HasSuffix(path, provenanceSuffix) || strings.HasSuffix(path, packsSuffix) ||
		strings.HasSuffix(path, sumsSuffix)
}

// TestFlippedBitIsFoundAndRepaired: a flipped bit anywhere is found, reported with the version, and repaired from
// another store; an object that no store has is removed.
func TestFlippedBitIsFoundAndRepaired(t *testing.T) {
	d, copied, v, public := twoStores(t)
	server := serveStore(t, copied)
	for n, path := range files(t, d) {
		if repairSource(path) {
			continue
		}
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{0, len(good) / 2, len(good) - 1} {
			if strings.HasSuffix(path, signatureSuffix) {
				at = bytes.IndexByte(good, '\n') + 10 // its first line is a comment that nobody signed
			}
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (n % 8)
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			found, err := d.Check(t.Context(), []string{public}, nil)
			if err != nil || len(found.Problems) == 0 {
				t.Errorf("bit %d of byte %d of %s: not found, %v", n%8, at, path, err)
			}
			second := []RepairSource{DirSource{copied}}
			if n%2 == 0 {
				second = []RepairSource{server}
			}
			repair(t, d, v, public, second)
			got, err := os.ReadFile(path)
			if (err != nil || !bytes.Equal(got, good)) && !bytes.Equal(good, []byte("unused")) {
				t.Errorf("%s is not what it was: %q, %v", path, got, err)
			}
			if bytes.Equal(good, []byte("unused")) {
				break // it was removed
			}
		}
	}
}

// repair repairs a store and checks that no problem is left.
func repair(t *testing.T, d *Dir, v fleet.Digest, public string, from []RepairSource) {
	t.Helper()
	r, err := d.Inspect(
		t.Context(),
		Inspection{Keys: []string{public}, Versions: []fleet.Digest{v}, From: from, Repair: true},
	)
	if err != nil || len(r.Problems) > 0 || len(r.Fixed) == 0 {
		t.Errorf("repair: %+v, %v", r, err)
	}
	if r, err = d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 || r.Versions != 1 {
		t.Errorf("after the repair: %+v, %v", r, err)
	}
}

// serveStore starts a web server with a copy of a store, like another Pando server.
func serveStore(t *testing.T, d *Dir) *HTTP {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /o/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := chunk.ParseID(r.PathValue("id"))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, d.ObjectPath(id))
	})
	mux.HandleFunc("GET /m/{name}", func(w http.ResponseWriter, r *http.Request) {
		name, signature := strings.CutSuffix(r.PathValue("name"), signatureSuffix)
		path := d.ManifestPath(fleet.Digest("sha256:" + name))
		if signature {
			path = d.SignaturePath(fleet.Digest("sha256:" + name))
		}
		http.ServeFile(w, r, path)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &HTTP{URL: s.URL, Client: s.Client()}
}

// TestRepairOfAnEmptyStore: a store that lost everything gets all versions back whose digests are known.
func TestRepairOfAnEmptyStore(t *testing.T) {
	_, copied, v, public := twoStores(t)
	d := newDir(t)
	r, err := d.Inspect(t.Context(), Inspection{Keys: []string{public}, Versions: []fleet.Digest{v}})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Version != v {
		t.Errorf("an empty store: %+v, %v", r, err)
	}
	repair(t, d, v, public, []RepairSource{DirSource{newDir(t)}, serveStore(t, copied)})
}

// TestRepairBelievesNobody: wrong bytes in the other store are refused, and the file is removed, so that a build
// writes it again.
func TestRepairBelievesNobody(t *testing.T) {
	d, copied, v, public := twoStores(t)
	var chunks []Use
	if err := d.Uses(t.Context(), v, func(u Use) { chunks = append(chunks, u) }); err != nil {
		t.Fatal(err)
	}
	last := chunks[len(chunks)-1]
	for _, s := range []*Dir{d, copied} {
		if err := os.WriteFile(s.ObjectPath(last.ID), bytes.Repeat([]byte("x"), int(last.Size)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := d.Inspect(
		t.Context(),
		Inspection{
			Keys:   []string{public},
			From:   []RepairSource{DirSource{copied}, serveStore(t, copied)},
			Repair: true,
		},
	)
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Object != last.ID ||
		r.Problems[0].Start != chunk.BlockSize ||
		r.Problems[0].Raw != chunk.BlockSize {
		t.Errorf("%+v, %v", r, err)
	}
	if _, ok := d.Stat(last.ID); ok {
		t.Error("the broken file is still in the way of a build")
	}
	w := d.NewWriter()
	defer w.Close()
	enc, err := chunk.NewEncoder(1)
	if err != nil {
		t.Fatal(err)
	}
	stored, _ := enc.Encode(bytes.Repeat([]byte("b"), chunk.BlockSize))
	if id, isNew, err := w.Put(t.Context(), stored); err != nil || !isNew || id != last.ID {
		t.Errorf("the build wrote %s, new %v, %v", id, isNew, err)
	}
	if err := w.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	if r, err = d.Check(t.Context(), []string{public}, nil); err != nil || len(r.Problems) > 0 {
		t.Errorf("after the build: %+v, %v", r, err)
	}
}
