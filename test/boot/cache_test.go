package boot

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// mostWarm bounds the bytes of the root that come over the network when the node's cache has them.
const mostWarm = 1_000_000

// A node with an unused disk boots without it. Once the command has prepared the disk, the next boot fills it, and the
// one after reads almost nothing from the network, even after a power cut. A removed, damaged or read-only disk fails
// no boot and is reported. A new disk or card with a partition of the cache's name becomes a cache.
func TestRealBootWithACacheDisk(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	kind, size := fleet.CacheDisk, int64(400e6)
	if _, err := s.API.SetGroup(t.Context(), bookworm,
		api.GroupSet{Settings: fleet.Settings{Cache: &kind, CacheSize: &size}}); err != nil {
		t.Fatal(err)
	}
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 21, 0, 1}, firmware: testkit.BIOS, group: bookworm,
		cache: filepath.Join(s.dir, "cache.img")}
	disk, err := os.Create(n.cache)
	if err == nil {
		err = disk.Truncate(512 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	s.announce(n)

	m := s.cacheBoot(n, "empty")
	s.hasEvent(n, "no cache on a disk: none ")
	s.prepareCache(n, "/dev/sda")
	s.traced(n, m)
	s.cut(m)

	m = s.cacheBoot(n, "first")
	s.hasEvent(n, "cache on /dev/sda1")
	s.traced(n, m)
	s.cut(m)

	s.waitPack(n) // the cache has these blocks as chunks: no piece is worth fetching
	m = s.cacheBoot(n, "second")
	if got := s.latest(n).Bytes; got["server"] >= mostWarm || got["disk"] == 0 {
		t.Errorf("with a warm cache: %v, want less than %d bytes from the server", got, mostWarm)
	}
	s.prove(n, s.shell(n))
	s.cut(m)

	s.pulledOut(n)

	r := rand.New(rand.NewPCG(1, 1))
	for range 400 { // in the first 80 MB, where the cache has data
		if _, err := disk.WriteAt([]byte{byte(r.Uint32())}, 20<<20+r.Int64N(60<<20)); err != nil {
			t.Fatal(err)
		}
	}
	m = s.cacheBoot(n, "damaged")
	s.hasEvent(n, "cache-damaged")
	s.cut(m)

	n.cacheReadOnly = true
	m = s.cacheBoot(n, "read-only")
	s.hasEvent(n, "which is read-only")
	s.cut(m)

	n.cache, n.cacheReadOnly = "", false
	m = s.cacheBoot(n, "gone")
	s.hasEvent(n, "no cache on a disk: none ")
	s.cut(m)
	s.onlyNamed(n, "/dev/sda1")
	n.cacheCard = true
	s.onlyNamed(n, "/dev/mmcblk0p1")
}

// pulledOut boots a node whose warm cache is on a USB stick, and removes the stick once the root is attached. The boot
// continues, and reads from the network what was on the stick.
func (s *site) pulledOut(n node) {
	s.t.Helper()
	n.cacheUSB = true
	m := s.cacheBootWhile(n, "pulled out", func(m *testkit.Machine, before fleet.BootID) {
		s.wait(n.name, bootTimeout, m, func(api.Node) bool {
			b, err := s.API.NodeBoot(s.t.Context(), n.name)
			return err == nil && b.ID != before && slices.ContainsFunc(b.Events, func(e trace.Event) bool {
				return e.Stage == trace.Device && e.Kind == trace.End
			})
		})
		if err := m.PullCache(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
		s.t.Logf("pulled out after %v from the disk", s.latest(n).Bytes)
	})
	s.hasEvent(n, "cache on /dev/sda1")
	g := s.shell(n)
	s.proveReads(n, g)
	if kernel := s.run(g, "dmesg"); strings.Contains(kernel, "dev nbd0") ||
		strings.Contains(kernel, "erofs: (device nbd0): failed") {
		s.t.Errorf("the root could not be read:\n%s", grep(kernel, "nbd0"))
	}
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return strings.Contains(e.Message, "cache-failed") },
	)
	s.cut(m)
}

// named is a partition with the name of a cache.
var named = cache.Partition{Type: cache.TypeCache, Name: cache.PartitionName, Start: 4 << 20, Size: 400 << 20}

// namedCache formats a file as a disk with that partition.
func namedCache(disk *os.File) error {
	const size = 512 << 20
	return errors.Join(disk.Truncate(size), cache.WritePartitions(disk, size, 512, []cache.Partition{named}))
}

// onlyNamed boots a node with a new disk that has only an empty partition (device) with the name of a cache.
func (s *site) onlyNamed(n node, device string) {
	s.t.Helper()
	n.cache = filepath.Join(s.dir, filepath.Base(device)+".img")
	disk, err := os.Create(n.cache)
	if err != nil {
		s.t.Fatal(err)
	}
	defer disk.Close()
	if err := namedCache(disk); err != nil {
		s.t.Fatal(err)
	}
	m := s.cacheBoot(n, "only named, "+device)
	s.hasEvent(n, "new cache on "+device)
	for _, e := range s.latest(n).Events {
		if strings.Contains(e.Message, "cache-failed") {
			s.t.Errorf("with a new cache: %s", e.Message)
		}
	}
	s.cut(m)
	if kept, err := cache.Open(cache.Section{Area: disk, Start: named.Start}, named.Size,
		cache.Options{ReadOnly: true}); err != nil ||
		kept.Stats().Objects == 0 {
		s.t.Errorf("after its first boot the new cache has nothing: %v", err)
	}
}

// cacheBoot boots a node and returns when the node has reported its reads.
func (s *site) cacheBoot(n node, name string) *testkit.Machine {
	s.t.Helper()
	return s.cacheBootWhile(n, name, func(*testkit.Machine, fleet.BootID) {})
}

// cacheBootWhile is cacheBoot, and calls happens during the boot with the id of the previous boot.
func (s *site) cacheBootWhile(n node, name string, happens func(*testkit.Machine, fleet.BootID)) *testkit.Machine {
	s.t.Helper()
	before, _ := s.API.NodeBoot(s.t.Context(), n.name) // the first boot has none before it: an empty id
	m, booted := s.powerOn(n)
	happens(m, before.ID)
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != before.ID && n.Boot.State.Reached() && n.Running == n.Desired
	})
	booted()
	e := s.recording(n, m)
	s.t.Logf("%s: %v; %s", name, s.latest(n).Bytes, e.Message)
	return m
}

func (s *site) latest(n node) api.BootDetail {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// hasEvent expects an event with a text in the node's latest boot.
func (s *site) hasEvent(n node, text string) {
	s.t.Helper()
	var all []string
	for _, e := range s.latest(n).Events {
		if strings.Contains(e.Message, text) {
			return
		}
		all = append(all, string(e.Stage)+": "+e.Message)
	}
	s.t.Errorf("no event of %s says %q:\n%s", n.name, text, strings.Join(all, "\n"))
}

// cut switches a machine off at once.
func (s *site) cut(m *testkit.Machine) {
	s.t.Helper()
	if err := m.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// prepareCache makes a disk of a running node its cache, by the operator's command.
func (s *site) prepareCache(n node, device string, args ...string) {
	s.t.Helper()
	c := exec.CommandContext(
		s.t.Context(),
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"node",
		"cache",
		n.name,
		"--device",
		device,
		"--erase",
		device,
	)
	c.Args = append(c.Args, args...)
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatal(errors.Join(err, errors.New(string(out))))
	}
	s.t.Logf("%s", out)
	if b := s.latest(n); !b.State.Reached() {
		s.t.Errorf("the node is %s after its cache was prepared", b.State)
	}
}
