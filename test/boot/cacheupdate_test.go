package boot

import (
	"os"
	"path/filepath"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/testkit"
)

// mostUpdated bounds the share of a boot's needs that comes over the network after an update that moves every file and
// changes few, if the node's cache has the previous version.
const mostUpdated = 0.25

// smallUpdate moves all following files, so that every block with inodes changes, and changes a program and a library.
const smallUpdate = `head -c 5000000 /dev/urandom > /etc/adjective && for f in /usr/lib/systemd/systemd /usr/lib/x86_64-linux-gnu/libcrypto.so.3; do
	echo updated >> "$f"; done`

// A node whose cache has the boot pack of a version boots the next version mostly from the cache, because most pieces
// of the pack stay the same.
func TestRealUpdateWithACache(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 61, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	for _, name := range []string{"first", "second"} {
		m := s.cacheBoot(n, name)
		s.traced(n, m)
		s.cut(m)
	}
	s.waitPack(n)
	kind, size := fleet.CacheDisk, int64(400e6)
	if _, err := s.API.SetGroup(t.Context(), bookworm,
		api.GroupSet{Settings: fleet.Settings{Cache: &kind, CacheSize: &size}}); err != nil {
		t.Fatal(err)
	}
	n.cache = filepath.Join(s.dir, "cache.img")
	disk, err := os.Create(n.cache)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	if err := namedCache(disk); err != nil {
		t.Fatal(err)
	}
	s.cut(s.cacheBoot(n, "with a new cache"))

	s.command("image", "shell", bookworm, "--tag", "latest", "--", "sh", "-euc", smallUpdate)
	pack := s.waitPackOf(n, func(r bootpack.Record) bool { return r.From != "" })
	m := s.cacheBoot(n, "updated")
	got := s.latest(n).Bytes
	t.Logf("of a boot set of %d bytes the server sent %d", pack.BootSet, got["server"])
	if sent := float64(got["server"]); sent > mostUpdated*float64(pack.BootSet) || got["disk"] == 0 {
		t.Errorf("after an update: %v, want at most %.2f of %d bytes from the server", got, mostUpdated, pack.BootSet)
	}
	s.prove(n, s.shell(n))
	s.cut(m)
}
