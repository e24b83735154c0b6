package s3

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"

	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/testkit"
)

// TestBucketIsRepaired: what is damaged or lost in a bucket is found in spite of the local cache, and repaired from
// another bucket, from a directory and from a server. Every machine then reads the repaired file.
func TestBucketIsRepaired(t *testing.T) {
	s := service(t)
	public, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := store.OpenDir(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := testkit.SmallVersion(t.Context(), beside, key, "kernel", 3)
	if err != nil {
		t.Fatal(err)
	}
	kept := newBucket(t, s, nil)
	other := newBucket(t, s, func(c *Config) { c.URL += "-other" })
	fillWith(t, kept, beside)
	fillWith(t, other, beside)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as a server answers
		name := strings.TrimPrefix(r.URL.Path, "/o/")
		if rest, ok := strings.CutPrefix(r.URL.Path, "/m/"); ok {
			if !strings.Contains(rest, ".") {
				rest += ".json"
			}
			http.ServeFile(w, r, filepath.Join(beside.Path(), "manifests", rest))
			return
		}
		http.ServeFile(w, r, filepath.Join(beside.Path(), "objects", name[:2], name))
	}))
	defer server.Close()
	for what, from := range map[string]store.RepairSource{"bucket": store.RemoteSource{In: other},
		"directory": store.DirSource{Dir: beside},
		"server":    &store.HTTP{URL: server.URL, Client: server.Client()}} {
		t.Run(what, func(t *testing.T) {
			for _, damage := range []func([]byte) []byte{nil, flipLast} {
				for _, name := range files(t, beside) {
					if strings.HasSuffix(name, ".sums") ||
						what == "server" && strings.HasSuffix(name, ".provenance.json") ||
						damage == nil && strings.Contains(name, ".provenance") {
						continue // of what people read a server sends nothing, and without it nothing is wrong
					}
					repaired(t, kept, v, public.String(), from, name, damage)
				}
			}
		})
	}
}

func flipLast(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-2] ^= 4
	return b
}

// files lists the files of a directory that the bucket also has, by their names in the bucket.
func files(t *testing.T, d *store.Dir) (out []string) {
	t.Helper()
	for _, pattern := range []string{"objects/*/*", "manifests/*"} {
		found, err := filepath.Glob(filepath.Join(d.Path(), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			name, err := filepath.Rel(d.Path(), f)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, name)
		}
	}
	return out
}

func fillWith(t *testing.T, b *Bucket, d *store.Dir) {
	t.Helper()
	for _, name := range files(t, d) {
		data, err := os.ReadFile(filepath.Join(d.Path(), name))
		if err == nil {
			err = b.Put(t.Context(), name, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// repaired damages or removes a file of a bucket, and repairs it on a machine whose cache still has it.
func repaired(
	t *testing.T,
	b *Bucket,
	v fleet.Digest,
	public string,
	from store.RepairSource,
	name string,
	damage func([]byte) []byte,
) {
	t.Helper()
	good, err := readRemote(t, b, name)
	if err != nil {
		t.Fatal(err)
	}
	d := newCache(t, again(t, b), DefaultCache)
	in := store.Inspection{Keys: []string{public}, Versions: []fleet.Digest{v}}
	if r, err := d.Inspect(t.Context(), in); err != nil || len(r.Problems) > 0 || r.Versions != 1 {
		t.Fatalf("%s: before: %+v, %v", name, r, err)
	}
	if damage == nil {
		err = b.Remove(t.Context(), name)
	} else {
		err = b.Put(t.Context(), name, damage(good))
	}
	if err != nil {
		t.Fatal(err)
	}
	d = newCache(t, again(t, b), DefaultCache)
	if r, err := d.Inspect(t.Context(), in); err != nil || len(r.Problems) == 0 ||
		!slices.ContainsFunc(r.Problems, func(p store.Problem) bool { return p.Version == v }) {
		t.Errorf("%s: damaged: %+v, %v", name, r.Problems, err)
	}
	unlock := lock(t, d)
	in.From, in.Repair = []store.RepairSource{from}, true
	r, err := d.Inspect(t.Context(), in)
	unlock()
	if err != nil || len(r.Problems) > 0 || len(r.Fixed) == 0 {
		t.Errorf("%s: repairing: %+v, %v", name, r, err)
	}
	if got, err := readRemote(t, b, name); err != nil || !bytes.Equal(got, good) {
		t.Errorf("%s: %d bytes, that is not what it was: %v", name, len(got), err)
	}
}

func readRemote(t *testing.T, b *Bucket, name string) ([]byte, error) {
	t.Helper()
	in, err := b.Get(t.Context(), name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var out bytes.Buffer
	_, err = out.ReadFrom(in)
	return out.Bytes(), err
}
