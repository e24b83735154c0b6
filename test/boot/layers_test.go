package boot

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/cache"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// A write layer in compressed memory uses less memory than is written, and removed files free it. If it is full the
// node behaves as with tmpfs. A kernel without zram still boots, and the timeline says so.
func TestRealBootOnCompressedMemory(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	limit := "104m"
	s.layer(bookworm, "zram", &limit)
	n := node{name: "pc003", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 3}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	m, g := s.layerBoot(n)
	s.hasEvent(n, "writable up to 109 MB in compressed memory (zram0, zstd)")

	at := s.zramUsed(g)
	s.run(g, "dd if=/dev/urandom of=/var/tmp/random bs=1M count=40 2>/dev/null; sync")
	full := s.zramUsed(g)
	s.run(g, "rm /var/tmp/random; sync; sleep 1")
	freed := s.zramUsed(g)
	s.run(g, "yes pando | head -c 40000000 > /var/tmp/text; sync")
	text := s.zramUsed(g)
	t.Logf(
		"mm_stat, bytes in memory: %d; with 40 MiB that nothing packs %d; removed %d; with 40 MB of text %d",
		at,
		full,
		freed,
		text,
	)
	if full < at+39<<20 || freed > at+4<<20 || text > freed+8<<20 {
		t.Error("removing gives nothing back, or nothing is packed")
	}
	s.run(g, "rm /var/tmp/text")
	s.fillWriteLayer(n, m, g)
	s.healthy(s.shell(n))
	s.cut(m)

	if _, err := s.API.SetNodes(t.Context(),
		api.NodeSet{Select: n.name, KernelArgs: &[]string{"module_blacklist=zram"}}); err != nil {
		t.Fatal(err)
	}
	m, g = s.layerBoot(n)
	s.hasEvent(n, "the node writes to memory (tmpfs): ")
	s.hasEvent(n, "writable up to 104m in memory")
	s.wait(
		n.name,
		stepTimeout,
		m,
		func(n api.Node) bool { return n.Writes().String() == "tmpfs, and its settings say zram" },
	)
	s.healthy(g)
	s.powerOff(m)
}

// zramUsed returns how many bytes of memory a zram device uses.
func (s *site) zramUsed(g *testkit.Guest) int64 {
	s.t.Helper()
	f := strings.Fields(s.run(g, "cat /sys/block/zram0/mm_stat"))
	n, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// A kept write layer on a disk survives a power cut with the same version, and is wiped with another version. A disk
// that is not kept is empty at each boot. Without the disk, the node writes to memory.
func TestRealBootOnAWriteDisk(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	for _, g := range []string{bookworm, trixie} {
		s.layer(g, "disk keep", nil)
	}
	n := node{
		name:     "pc004",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 4},
		firmware: testkit.BIOS,
		group:    trixie,
		cache:    s.namedDisk("write.img", fleet.WritePartition),
	}
	s.announce(n)
	const busy = "echo kept > /var/tmp/kept; sync; nohup sh -c 'for i in $(seq 400); do dd if=/dev/urandom " +
		"of=/var/tmp/$i bs=64k count=4; done' > /dev/null 2>&1 & until test -e /var/tmp/9; do sleep 0.2; done"
	m, g := s.layerBoot(n)
	s.hasEvent(n, "MB on /dev/sda1")
	s.run(g, busy)
	s.cut(m)

	m, g = s.layerBoot(n)
	s.hasEvent(n, "on /dev/sda1, with what was kept")
	if got := strings.TrimSpace(s.run(g, "cat /var/tmp/kept; dmesg | grep -E 'EXT4-fs "+
		"error|overlayfs.*(fail|err)' || true")); got != "kept" {
		t.Errorf("after a power cut: %s", got)
	}
	s.healthy(g)
	s.cut(m)

	group := bookworm
	if _, err := s.API.SetNodes(t.Context(), api.NodeSet{Select: n.name, Group: &group}); err != nil {
		t.Fatal(err)
	}
	m, g = s.layerBoot(n)
	s.hasEvent(n, "what was kept on /dev/sda1 is wiped: it belongs to version")
	s.run(g, "test ! -e /var/tmp/kept; "+busy)
	s.cut(m)

	s.layer(bookworm, "disk wipe", nil)
	for range 2 {
		m, g = s.layerBoot(n)
		s.run(g, "test ! -e /var/tmp/kept")
		s.healthy(g)
		s.run(g, busy)
		s.cut(m)
	}

	n.cache = ""
	m, g = s.layerBoot(n)
	s.hasEvent(n, "the node writes to memory (tmpfs): no partition is called "+fleet.WritePartition)
	s.healthy(g)
	s.powerOff(m)
}

// layer sets the write layer of a group's nodes.
func (s *site) layer(group, kind string, limit *string) {
	s.t.Helper()
	if _, err := s.API.SetGroup(s.t.Context(), group,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{WriteLayer: &kind},
			WriteLimit: limit}}); err != nil {
		s.t.Fatal(err)
	}
}

// layerBoot boots a node and logs in when it is up.
func (s *site) layerBoot(n node) (*testkit.Machine, *testkit.Guest) {
	s.t.Helper()
	before, _ := s.API.NodeBoot(s.t.Context(), n.name) // the first boot has none before it: an empty id
	m, booted := s.powerOn(n)
	s.wait(n.name, bootTimeout, m, func(n api.Node) bool {
		return n.Boot != nil && n.Boot.ID != before.ID && n.Boot.State.Reached() && n.Running == n.Desired
	})
	booted()
	return m, s.shell(n)
}

// namedDisk makes the image of a disk of 1 GiB with one empty partition of the given name.
func (s *site) namedDisk(file, name string) string {
	s.t.Helper()
	const size, sector = 1 << 30, 512
	path := filepath.Join(s.dir, file)
	disk, err := os.Create(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer disk.Close()
	from, to := cache.Usable(size, sector)
	p := cache.Partition{Type: cache.TypeCache, Name: name, Start: from, Size: to - from}
	if err := disk.Truncate(size); err != nil {
		s.t.Fatal(err)
	}
	if err := cache.WritePartitions(disk, size, sector, []cache.Partition{p}); err != nil {
		s.t.Fatal(err)
	}
	return path
}
