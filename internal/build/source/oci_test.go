package source

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// testImage returns an image with two layers, one packed with gzip, the other with zstd.
func testImage(t testing.TB, architecture string) v1.Image {
	t.Helper()
	lower := archiveOf(
		t,
		dir("etc"),
		file("etc/arch", architecture),
		file("etc/gone", "x"),
		file("bin/a", "old"),
		hard("bin/b", "bin/a"),
	)
	upper := archiveOf(t, file("etc/.wh.gone", ""), file("bin/a", "new"), link("sbin", "bin"))
	return imageOf(t, architecture, layerOf(t, lower), layerOf(t, upper, tarball.WithCompression(compression.ZStd)))
}

func layerOf(t testing.TB, archive []byte, options ...tarball.LayerOption) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		options...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t testing.TB, architecture string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// index returns a multi-architecture image that also has an entry for an unknown platform, as builders add.
func index(t testing.TB) v1.ImageIndex {
	t.Helper()
	add := func(architecture, system string) mutate.IndexAddendum {
		return mutate.IndexAddendum{
			Add:        testImage(t, architecture),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: system, Architecture: architecture}},
		}
	}
	return mutate.AppendManifests(empty.Index, add("arm64", "linux"), add("unknown", "unknown"), add("amd64", "linux"))
}

// fillOCI fills a tree from a reference.
func fillOCI(t testing.TB, ref, architecture string) (tree string, m Made, err error) {
	t.Helper()
	needRoot(t)
	o, err := ParseOCI(ref, architecture, Limits{})
	if err != nil {
		return "", Made{}, err
	}
	p := Place{Root: t.TempDir(), Keep: t.TempDir()}
	if _, err := o.State(t.Context()); err != nil {
		return p.Root, Made{}, err
	}
	m, err = o.Fill(t.Context(), p, func(Progress) {})
	return p.Root, m, err
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func digestOf(t testing.TB, img v1.Image) string {
	t.Helper()
	d, err := img.Digest()
	check(t, err)
	return d.String()
}

// newRegistry starts a registry, and stores an image and an index in it.
func newRegistry(t testing.TB) (host string) {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	host = strings.TrimPrefix(s.URL, "http://")
	ref, err := name.ParseReference(host + "/lab:1")
	check(t, err)
	check(t, remote.Write(ref, testImage(t, "amd64")))
	ref, err = name.ParseReference(host + "/sub/multi:latest")
	check(t, err)
	check(t, remote.WriteIndex(ref, index(t)))
	return host
}

// places stores the test image in every kind of place that an image can be read from.
func places(t testing.TB) map[string]string {
	t.Helper()
	at := t.TempDir()
	img := testImage(t, "amd64")
	dir, multi := filepath.Join(at, "layout"), filepath.Join(at, "multi")
	p, err := layout.Write(dir, empty.Index)
	check(t, err)
	check(t, p.AppendImage(img))
	_, err = layout.Write(multi, index(t))
	check(t, err)
	tag, err := name.NewTag("registry.lab/lab:1")
	check(t, err)
	saved := filepath.Join(at, "saved.tar")
	check(t, tarball.WriteToFile(saved, tag, img))
	for _, args := range [][]string{{"tar", "-C", dir, "-cf", dir + ".tar", "."}, {"gzip", "-k", saved},
		{"zstd", "-q", dir + ".tar"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	host := newRegistry(t)
	return map[string]string{
		"layout": dir, "layout by digest": dir + "@" + digestOf(t, img), "layout, skopeo's way": "oci:" + dir,
		"index":               multi,
		"archive of a layout": dir + ".tar", "packed archive of a layout": dir + ".tar.zst",
		"docker save": saved, "docker save by name": saved + ":registry.lab/lab:1",
		"docker save by tag": "docker-archive:" + saved + ":1",
		"packed docker save": saved + ".gz", "registry": host + "/lab:1",
		"registry without TLS": "http://" + host + "/lab:1",
		"registry by digest": "docker://" + host + "/lab@" + digestOf(
			t,
			img,
		), "index in a registry": host + "/sub/multi",
	}
}

// TestOCIFromEverywhere: the same image gives the same tree from every kind of place.
func TestOCIFromEverywhere(t *testing.T) {
	needRoot(t)
	var want []string
	for where, ref := range places(t) {
		t.Run(where, func(t *testing.T) {
			tree, m, err := fillOCI(t, ref, "amd64")
			check(t, err)
			if m.Kind != "oci" || m.Name != ref || !strings.HasPrefix(m.Digest, "sha256:") ||
				!strings.Contains(strings.Join(m.Notes, " "), "linux/amd64, 2 layers") {
				t.Errorf("made %+v", m)
			}
			if want == nil {
				want = describe(t, tree)
			}
			if got := describe(t, tree); !slices.Equal(got, want) {
				t.Errorf("it has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
	if got := strings.Join(want, "\n"); !strings.Contains(got, `bin/a 100644 0:0 1714979289.123456789 "new"`) ||
		!strings.Contains(got, `"old"`) ||
		!strings.Contains(got, `"amd64"`) ||
		strings.Contains(got, "gone") ||
		!strings.Contains(got, "sbin 120777 0:0 1714979289.123456789 -> bin") {
		t.Errorf("the tree has\n%s", got)
	}
}

// TestOCIByArchitecture: each architecture gets its own image of an index.
func TestOCIByArchitecture(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "multi")
	_, err := layout.Write(dir, index(t))
	check(t, err)
	for _, architecture := range []string{"amd64", "arm64"} {
		tree, _, err := fillOCI(t, dir, architecture)
		check(t, err)
		if got, err := os.ReadFile(filepath.Join(tree, "etc/arch")); err != nil || string(got) != architecture {
			t.Errorf("asked for %s, got that for %q (%v)", architecture, got, err)
		}
	}
}

// TestOCIRefused: the error for an image that nodes cannot boot says why.
func TestOCIRefused(t *testing.T) {
	needRoot(t)
	at := t.TempDir()
	write := func(name string, ix v1.ImageIndex) string {
		_, err := layout.Write(filepath.Join(at, name), ix)
		check(t, err)
		return filepath.Join(at, name)
	}
	named := func(name string, img v1.Image) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Annotations: map[string]string{refName: name}}}
	}
	two := write(
		"two",
		mutate.AppendManifests(empty.Index, named("a", testImage(t, "amd64")), named("b", testImage(t, "arm64"))),
	)
	chart := write(
		"chart",
		mutate.AppendManifests(
			empty.Index,
			mutate.IndexAddendum{
				Add: mutate.ConfigMediaType(testImage(t, "amd64"), "application/vnd.cncf.helm.config.v1+json"),
			},
		),
	)
	bare := write("bare", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: testImage(t, "arm64")}))
	none := write("none", mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: imageOf(t, "amd64")}))
	host := newRegistry(t)
	rootfs := filepath.Join(at, "rootfs.tar")
	check(t, os.WriteFile(rootfs, archiveOf(t, file("etc/hostname", "x")), 0o644))
	for ref, want := range map[string]string{
		two: "several images; name one of a, b", two + ":c": "no image c, but a, b", chart: "not the image of a " +
			"root file system", bare: "--architecture arm64",
		none: "no layers", at: "no index.json", rootfs: "--from-tar", host + "/lab:2": "no such image",
		host + "/nosuch":  "no such image",
		"Debian:Bookworm": "no file has this name", "/nosuch": "no such file", "oci:/nosuch": "no such file",
		"./nosuch.tar":           "no such file",
		write("multi", index(t)): "", // the last: everything about it is right
	} {
		tree, _, err := fillOCI(t, ref, "amd64")
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", ref, err, want)
		}
		if tree != "" && len(names(t, tree)) > 0 {
			t.Errorf("%s: the tree has %v", ref, names(t, tree))
		}
	}
	if _, m, err := fillOCI(t, two+":b", "arm64"); err != nil || m.Digest == "" {
		t.Errorf("by name: %v", err)
	}
	if _, _, err := fillOCI(t, filepath.Join(at, "multi"), "riscv64"); err == nil ||
		!strings.Contains(err.Error(), "linux/riscv64, but for linux/arm64, linux/amd64") {
		t.Errorf("riscv64: %v", err)
	}
}

// TestOCIDamaged: a changed byte in any document or layer is noticed and leaves no tree.
func TestOCIDamaged(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	check(t, err)
	check(t, p.AppendImage(testImage(t, "amd64")))
	blobs, err := filepath.Glob(dir + "/blobs/sha256/*")
	if err != nil || len(blobs) != 4 {
		t.Fatalf("%v, %v", blobs, err)
	}
	for _, blob := range blobs {
		good, err := os.ReadFile(blob)
		check(t, err)
		for what, bad := range map[string][]byte{"cut off": good[:len(good)-1],
			"longer": append(slices.Clone(good), 0), "changed": flipped(good)} {
			check(t, os.WriteFile(blob, bad, 0o644))
			tree, _, err := fillOCI(t, dir, "amd64")
			if err == nil || len(names(t, tree)) > 0 {
				t.Errorf("%s %s: error %v, the tree has %v", filepath.Base(blob)[:8], what, err, names(t, tree))
			}
		}
		check(t, os.WriteFile(blob, good, 0o644))
	}
	if _, _, err := fillOCI(t, dir, "amd64"); err != nil {
		t.Errorf("all as it was: %v", err)
	}
}

func flipped(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)/2] ^= 1
	return b
}

// TestSavedImageDamaged: a saved image is verified by the digests of its unpacked layers, because the archive has no
// others.
func TestSavedImageDamaged(t *testing.T) {
	tag, err := name.NewTag("registry.lab/lab:1")
	check(t, err)
	saved := filepath.Join(t.TempDir(), "saved.tar")
	archive := archiveOf(t, file("etc/issue", strings.Repeat("a", 5000)))
	check(t, tarball.WriteToFile(saved, tag, imageOf(t, "amd64", layerOf(t, archive))))
	good, err := os.ReadFile(saved)
	check(t, err)
	var plain bytes.Buffer // with its layer not packed, as docker writes it
	in, out := tar.NewReader(bytes.NewReader(good)), tar.NewWriter(&plain)
	for {
		h, err := in.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		content, err := io.ReadAll(in)
		check(t, err)
		if strings.HasSuffix(h.Name, ".gz") {
			content = archive
		}
		h.Size = int64(len(content))
		check(t, out.WriteHeader(h))
		_, err = out.Write(content)
		check(t, err)
	}
	check(t, out.Close())
	check(t, os.WriteFile(saved, plain.Bytes(), 0o644))
	if _, _, err := fillOCI(t, saved, "amd64"); err != nil {
		t.Fatal(err)
	}
	check(t, os.WriteFile(saved, bytes.Replace(plain.Bytes(), []byte("aaaaaaaa"), []byte("aaaabaaa"), 1), 0o644))
	if tree, _, err := fillOCI(t, saved, "amd64"); err == nil || !strings.Contains(err.Error(), "changed or damaged") ||
		len(names(t, tree)) > 0 {
		t.Errorf("error %v, the tree has %v", err, names(t, tree))
	}
}
