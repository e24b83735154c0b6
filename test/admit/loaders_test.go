package admit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/testkit"
)

var subnet = netip.MustParsePrefix("10.83.0.1/24")

// loaders are machines that load K from a server with TFTP and proxy DHCP, beside another DHCP server.
type loaders struct {
	t       *testing.T
	star    *testkit.Star
	macs    []fleet.MAC
	objects []chunk.ID // objects that belong to no image
}

// newLoaders starts a server for n machines and a kernel of the given size. rate is the rate of every link; nodeLink is
// the rate that the server assumes for the machines' links.
func newLoaders(t *testing.T, n, kernel int, rate, nodeLink testkit.Rate) *loaders {
	t.Helper()
	bin := programs(t)
	dir, err := os.MkdirTemp("", "admit") // short: there are sockets in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &loaders{t: t}
	if l.star, err = testkit.NewStar(t.Context(),
		testkit.StarConfig{Prefix: "admit", Server: subnet, Nodes: n}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.check(l.star.Close()) })
	for i := range n {
		a := l.star.NodeAddr(i).As4()
		l.macs = append(l.macs, fleet.MAC{0x02, 0x70, a[0], a[1], a[2], a[3]})
	}
	data := filepath.Join(dir, "data")
	if err := l.fill(data, kernel, nodeLink); err != nil {
		t.Fatal(err)
	}
	if err := l.star.Limit(rate, rate); err != nil {
		t.Fatal(err)
	}
	site, err := testkit.StartSite(
		t.Context(),
		testkit.SiteConfig{Net: l.star.Server, Bin: bin, Data: data, Log: filepath.Join(dir, "server.log"),
			DHCP: "proxy", Args: []string{"--uplink", rate.String()}},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.check(site.Close()) })
	return l
}

// programs returns the directory of the programs. It skips the test without them, or without network namespaces.
func programs(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	for _, program := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v (Debian's package iproute2 has it)", err)
		}
	}
	bin, err := filepath.Abs("../../build/bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pando", "pando-init"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Skipf("%v (make build makes it)", err)
		}
	}
	return bin
}

func (l *loaders) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Error(err)
	}
}

// fill makes an image with a large kernel, the nodes, and one node that has reported the rate of its link.
func (l *loaders) fill(data string, kernel int, link testkit.Rate) error {
	ctx := context.Background()
	if err := os.MkdirAll(data, 0o755); err != nil {
		return err
	}
	version, err := l.kernelOf(ctx, data, kernel)
	if err != nil {
		return err
	}
	r, err := registry.Open(ctx, registry.Options{Dir: data})
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Update(ctx, func(tx *registry.Tx) error {
		errs := []error{tx.AddVersion(registry.ImageVersion{Image: "lab", Version: version, Added: time.Now()})}
		_, err := tx.PutTag(fleet.Tag{Image: "lab", Tag: "latest", Version: version})
		errs = append(errs, err, tx.PutGroup(fleet.Group{Name: fleet.DefaultGroup, Image: "lab", Follow: true}))
		for i, mac := range l.macs {
			errs = append(
				errs,
				tx.CreateNode(fleet.Node{Name: fmt.Sprintf("pc%03d", i+1), MACs: []fleet.MAC{mac}, State: fleet.Adopted,
					Group: fleet.DefaultGroup, Created: time.Now()}),
			)
		}
		told, before := fleet.MAC{0x02, 0x71}, time.Now().Add(-time.Hour)
		errs = append(errs,
			tx.CreateNode(fleet.Node{Name: "told", MACs: []fleet.MAC{told}, State: fleet.Adopted,
				Group: fleet.DefaultGroup, Created: time.Now()}),
			tx.CreateBoot(registry.Boot{ID: "00000000000000a1", MAC: told, Node: "told", Started: before,
				Hardware: fmt.Appendf(nil, `{"link":%d}`, int64(link))}))
		return errors.Join(errs...)
	})
}

// kernelOf makes an image with a kernel of the given size and almost no drivers. It also stores the objects.
func (l *loaders) kernelOf(ctx context.Context, data string, size int) (fleet.Digest, error) {
	keys, err := identity.Open(filepath.Join(data, "keys"))
	if err != nil {
		return "", err
	}
	dir, err := store.OpenDir(filepath.Join(data, "store"))
	if err != nil {
		return "", err
	}
	unlock, err := dir.Lock(ctx, "test")
	if err != nil {
		return "", err
	}
	defer unlock()
	w := dir.NewWriter()
	defer w.Close()
	kernel := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{3}).Read(kernel) // never fails
	id, _, err := w.Put(ctx, kernel)
	drivers, _, failed := w.Put(ctx, kernel[:1000])
	for i := range objects {
		object, _, err := w.Put(ctx, kernel[i*objectSize:(i+1)*objectSize])
		failed = errors.Join(failed, err)
		l.objects = append(l.objects, object)
	}
	if err := errors.Join(err, failed, w.Sync(ctx)); err != nil {
		return "", err
	}
	m := image.Manifest{
		Format:       image.Format,
		Architecture: "amd64",
		Kernel:       image.Kernel{Release: "6.1.0", Object: id, Size: int64(size)},
		Drivers:      []image.Driver{{Name: "base", Object: drivers, Size: 1000}},
		CommandLine:  []string{"quiet"},
		Root: image.Root{
			FileSystem: "erofs",
			Index:      id,
			Size:       1 << 20,
			ChunkSize:  chunk.DefaultChunkSize,
		},
		Sizes: image.Sizes{Stored: 1 << 20, Files: 1},
	}
	raw, err := m.Encode()
	if err != nil {
		return "", err
	}
	return dir.PutVersion(store.Version{Manifest: raw, Signature: image.Sign(keys.Site, raw)})
}
