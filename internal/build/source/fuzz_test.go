package source

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// FuzzUnpack: no archive changes anything outside of the tree, and the size of the tree is bounded.
func FuzzUnpack(f *testing.F) {
	needRoot(f)
	f.Add(archiveOf(f, dir("a"), file("a/b", "content"), hard("c", "a/b"), link("l", "../../.."), file("l/x", "y")))
	f.Add(archiveOf(f, link("a", "/"), file("a/b", "x"), file(".wh.a", ""), file("d/.wh..wh..opq", ""), dir(".")))
	f.Add(archiveOf(
		f,
		entry{h: tar.Header{Typeflag: tar.TypeChar, Name: "dev/null", Devmajor: 1, Devminor: 3}},
		file(
			"x",
			"1",
		).with(func(h *tar.Header) { h.PAXRecords = map[string]string{xattrPrefix + "user.a": "b", "comment": "c"} }),
	))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0})
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1 && data[0] == 0xfd {
			return // the program xz is not to be tested here
		}
		above := t.TempDir()
		tree := filepath.Join(above, "outside", "tree")
		check(t, os.MkdirAll(tree, 0o700))
		check(t, os.WriteFile(filepath.Join(above, "outside", "secret"), []byte("secret"), 0o600))
		limits, err := newBudget(tree, Limits{MaxSize: 1 << 20})
		check(t, err)
		limits.files = 1000
		u, err := newUnpacker(tree, true, limits)
		check(t, err)
		defer u.close()
		err = u.packedArchive(t.Context(), bytes.NewReader(data))
		if _, bad := u.finish(t.Context()); err == nil && bad != nil {
			t.Errorf("after a whole archive: %v", bad)
		}
		for _, dir := range []string{above, filepath.Dir(tree)} {
			var got []string
			entries, err := os.ReadDir(dir)
			check(t, err)
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if want := map[string][]string{above: {"outside"},
				filepath.Dir(tree): {"secret", "tree"}}[dir]; !slices.Equal(
				got,
				want,
			) {
				t.Errorf("%s has %v", dir, got)
			}
		}
		if b, err := os.ReadFile(filepath.Join(above, "outside", "secret")); err != nil || string(b) != "secret" {
			t.Errorf("the file outside has %q, %v", b, err)
		}
	})
}

// FuzzDocuments: the documents of an image are not trusted either.
func FuzzDocuments(f *testing.F) {
	img := testImage(f, "amd64")
	config, err := img.RawConfigFile()
	check(f, err)
	manifest, err := img.RawManifest()
	check(f, err)
	raw, err := index(f).RawManifest()
	check(f, err)
	for _, b := range [][]byte{config, manifest, raw, []byte("null"), []byte(`{"manifests":[{}]}`)} {
		f.Add(b)
	}
	m, err := img.Manifest()
	check(f, err)
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := choose(data, "amd64"); err == nil && !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			t.Errorf("chose %+v", d)
		}
		i := &ociImage{}
		if err := i.describe(data, m.Layers); err == nil && len(i.layers) != len(m.Layers) {
			t.Errorf("described %+v", i)
		}
	})
}

// FuzzSavedImage: an archive of an image contains the positions of its own parts.
func FuzzSavedImage(f *testing.F) {
	at := f.TempDir()
	tag, err := name.NewTag("registry.lab/lab:1")
	check(f, err)
	check(f, tarball.WriteToFile(filepath.Join(at, "seed"), tag, testImage(f, "amd64")))
	seed, err := os.ReadFile(filepath.Join(at, "seed"))
	check(f, err)
	f.Add(seed)
	f.Add(archiveOf(f, link("a", "b"), link("b", "a"), file("manifest.json", `[{"Config":"a","Layers":["b","../x"]}]`)))
	f.Add(
		archiveOf(
			f,
			file(
				"index.json",
				`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"sha256:00"}]}`,
			),
		),
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1 && data[0] == 0xfd {
			return // the program xz is not to be tested here
		}
		path := filepath.Join(t.TempDir(), "a.tar")
		check(t, os.WriteFile(path, data, 0o600))
		o := &OCI{Ref: path, path: path, Architecture: "amd64", Limits: Limits{MaxSize: 1 << 20}}
		if err := o.resolve(t.Context(), t.TempDir()); err == nil {
			o.resolved.close()
		}
	})
}
