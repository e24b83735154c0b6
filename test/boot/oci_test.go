package boot

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/imagefs"
	"pando/internal/mount"
	"pando/internal/store"
	"pando/internal/testkit"
)

// A container image with two layers and without a kernel is fetched from a registry, gets the kernel of another image,
// and boots.
func TestRealBootFromOCI(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	ref := strings.TrimPrefix(server.URL, "http://") + "/debian:1"
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, s.containerImage()); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(binDir, "pando"), "--data", s.Config.Data, "image",
		"build", "kiosk",
		"--from-oci", ref, "--kernel-from", bookworm).
		CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.group("kiosk")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x0c, 1, 1}, firmware: testkit.BIOS, group: "kiosk"}
	m := s.boot(n)
	s.says(m, "login:")
}

// containerImage makes a container image from the root of an image without its modules, with a second layer that
// changes it.
func (s *site) containerImage() v1.Image {
	s.t.Helper()
	dir := filepath.Join(s.dir, "oci")
	upper := filepath.Join(dir, "upper", "etc")
	if err := os.MkdirAll(upper, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for file, text := range map[string]string{"issue": "From layers \\l\n", ".wh.motd": ""} {
		if err := os.WriteFile(filepath.Join(upper, file), []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	lower := filepath.Join(dir, "lower")
	mounts := s.mountImage(bookworm, lower)
	s.tar(lower, dir+"/1.tar", "--exclude=./usr/lib/modules")
	if err := mounts.Close(); err != nil {
		s.t.Error(err)
	}
	s.tar(filepath.Dir(upper), dir+"/2.tar")
	var layers []v1.Layer
	for _, file := range []string{"/1.tar", "/2.tar"} {
		l, err := tarball.LayerFromFile(dir+file, tarball.WithCompressionLevel(1))
		if err != nil {
			s.t.Fatal(err)
		}
		layers = append(layers, l)
	}
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err == nil {
		img, err = mutate.ConfigFile(img, withPlatform(img))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return img
}

// withPlatform returns an image's config with this machine's platform.
func withPlatform(img v1.Image) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		return nil // the next call returns the error
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", "amd64"
	return c
}

func (s *site) tar(dir, file string, args ...string) {
	s.t.Helper()
	args = append(
		[]string{"--format=posix", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-C", dir, "-cf", file},
		append(args, ".")...)
	if out, err := exec.Command("tar", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("tar: %v\n%s", err, out)
	}
}

// manifestOf returns the manifest of an image, and the store that has it.
func (s *site) manifestOf(ref string) (image.Manifest, *store.Dir) {
	s.t.Helper()
	i, err := s.API.Image(s.t.Context(), ref)
	if err != nil {
		s.t.Fatal(err)
	}
	d, err := store.OpenDir(filepath.Join(s.Config.Data, "store"))
	if err != nil {
		s.t.Fatal(err)
	}
	v, err := d.GetVersion(i.Tags[fleet.LatestTag])
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := image.Decode(v.Manifest)
	if err != nil {
		s.t.Fatal(err)
	}
	return m, d
}

// mountImage mounts the root file system of an image.
func (s *site) mountImage(ref, dir string) *mount.Stack {
	s.t.Helper()
	m, d := s.manifestOf(ref)
	if err := imagefs.Extract(s.t.Context(), d, m, dir+".erofs", func(int64) {}); err != nil {
		s.t.Fatal(err)
	}
	mounts := &mount.Stack{}
	if err := mounts.File(mount.File{Path: dir + ".erofs", Type: m.Root.FileSystem}, dir); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { logError(s.t, mounts.Close()) })
	return mounts
}
