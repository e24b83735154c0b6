package boot

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// mostFromServer bounds the bytes of objects that a server sends to a machine that reads from the bucket. It is above
// zero because the server sends what the bucket is late with.
const mostFromServer = 200_000

// The images are in a bucket of an S3 server of another project. Machines read their roots directly from it, from a
// public bucket or by URLs that the server signs. The server sends kernel, initramfs and manifest, and no objects.
func TestRealBootFromBucket(t *testing.T) {
	needFull(t)
	if _, err := testkit.FindVersityGW("../.."); err != nil {
		t.Skip(err)
	}
	for i, direct := range []string{"public", "signed"} {
		t.Run(direct, func(t *testing.T) {
			t.Parallel()
			s, service := newBucketSite(t, direct)
			n := node{
				name:     "pc-" + direct,
				mac:      fleet.MAC{0x52, 0x54, 0, 23, 0, byte(i + 1)},
				firmware: testkit.BIOS,
				group:    bookworm,
			}
			m := s.boot(n)
			g := s.shell(n)
			s.run(g, "cat /usr/bin/* /usr/lib/x86_64-linux-gnu/lib*.so.* > /dev/null") // cold reads
			s.prove(n, g)
			got := s.wait(
				n.name,
				stepTimeout,
				m,
				func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["bucket"] > 40e6 },
			)
			booted := s.latest(n).Bytes
			t.Logf("on the timeline: %v; since then: %v", booted, got.Status.Bytes)
			if booted["bucket"] < 10e6 || booted["server"] > mostFromServer ||
				got.Status.Bytes["server"] > mostFromServer {
				t.Errorf("%v when it was booted, then %v: the root came from the server", booted, got.Status.Bytes)
			}
			s.withoutBucket(n, m, g, service)
		})
	}
}

// withoutBucket ends the S3 server while a machine runs. What the machine reads then comes from the server's own cache.
func (s *site) withoutBucket(n node, m *testkit.Machine, g *testkit.Guest, service *testkit.S3) {
	s.t.Helper()
	logError(s.t, service.Close())
	s.run(g, "echo 3 > /proc/sys/vm/drop_caches && cat /usr/bin/* /usr/lib/x86_64-linux-gnu/lib*.so.* > /dev/null")
	s.noErrors(n, g)
	s.wait(
		n.name,
		stepTimeout,
		m,
		func(n api.Node) bool { return n.Status != nil && n.Status.Bytes["server"] > mostFromServer },
	)
}

// newBucketSite starts a server with a bucket as its store, and the image in it.
func newBucketSite(t *testing.T, direct string) (*site, *testkit.S3) {
	t.Helper()
	network := newNet(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	service, err := testkit.StartVersityGWIn(ctx, "../..", t.TempDir(), network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, service.Close()) })
	if err := service.MakeBucket(ctx, "images", direct == "public"); err != nil {
		t.Fatal(err)
	}
	s := newSiteWith(t, network, base, testkit.SiteConfig{DHCP: "own", Env: service.Environment(),
		Args: []string{"--store", "s3://images/lab", "--store-endpoint", service.Endpoint, "--store-direct", direct}})
	img, err := s.API.Image(t.Context(), bookworm)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	out := s.command(
		"image",
		"pull",
		filepath.Join(base, "store"),
		fmt.Sprintf("%s@%s", bookworm, img.Tags[fleet.LatestTag]),
	)
	t.Logf("%s in %v", out, time.Since(begin).Round(time.Second))
	return s, service
}
