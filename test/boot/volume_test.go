package boot

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// A node keeps its state on a volume of the server. While the server is down writes wait, and nothing is lost. After a
// power cut during writes, the file system is intact and has everything that was synced.
func TestRealBootOnAVolume(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	state, persist := "volume 1GB", []string{"/srv/data"}
	swap, limit := "zram", "100m"
	keeping := fleet.Keeping{
		StateOn: &state,
		Persist: &persist,
		Swap:    &swap,
		Users:   &[]string{"alice uid=2000 groups=video"},
		Sysctl:  &[]string{"vm.swappiness=99"},
	}
	if _, err := s.API.SetGroup(t.Context(), trixie,
		api.GroupSet{Settings: fleet.Settings{Keeping: keeping, WriteLimit: &limit}}); err != nil {
		t.Fatal(err)
	}
	n := node{name: "pc002", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 2}, firmware: testkit.BIOS, group: trixie}
	s.announce(n)
	m, g := s.stateBoot(n)
	if got := strings.TrimSpace(s.run(g, "id alice; stat -c %U /home/alice; grep -c zram /proc/swaps; cat "+
		"/proc/sys/vm/swappiness /proc/sys/vm/dirty_bytes")); got !=
		"uid=2000(alice) gid=2000(alice) groups=2000(alice),44(video)\nalice\n1\n99\n268435456" {
		t.Errorf("users, swap and settings of the kernel:\n%s", got)
	}
	s.volumeOutage(g)
	s.run(
		g,
		"echo synced > /srv/data/synced; sync; nohup sh -c 'for i in $(seq 400); do dd if=/dev/urandom "+
			"of=/srv/data/$i bs=64k count=4; done' > /dev/null 2>&1 &",
	)
	s.run(g, "until test -e /srv/data/5; do sleep 0.2; done")
	s.cut(m)

	m, g = s.stateBoot(n)
	if got := strings.TrimSpace(s.run(g,
		"cat /srv/data/synced; md5sum -c /srv/data/sum")); got != "synced\n/srv/data/big: OK" {
		t.Errorf("after a power cut:\n%s", got)
	}
	if got := strings.TrimSpace(s.run(g, "dmesg | grep -iE 'nbd1.*(error|fail)|EXT4-fs error' || true")); got != "" {
		t.Errorf("the kernel says\n%s", got)
	}
	s.fillWriteLayer(n, m, g)
	s.powerOff(m)
	s.wholeVolume(n)
}

// wholeVolume checks the file system of a volume after its node was switched off. It stops the server first, because
// the server does not notice that for a while and keeps the volume open.
func (s *site) wholeVolume(n node) {
	s.t.Helper()
	if err := s.Site.Close(); err != nil {
		s.t.Fatal(err)
	}
	raw := filepath.Join(s.dir, "raw")
	for _, c := range [][]string{{"qemu-img", "convert", "-O", "raw",
		filepath.Join(s.Config.Data, "volumes", n.name+".qcow2"), raw}, {"e2fsck", "-fn", raw}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			s.t.Errorf("%v: %v\n%s", c, err, out)
		}
	}
}

// fillWriteLayer fills the node's write layer. The node keeps running, and the timeline warns before writes fail.
func (s *site) fillWriteLayer(n node, m *testkit.Machine, g *testkit.Guest) {
	s.t.Helper()
	if got := s.run(g, "dd if=/dev/zero of=/var/tmp/almost bs=1M count=85 2>&1; df /"); strings.Contains(
		got,
		"No space left",
	) {
		s.t.Errorf("the write layer takes less than it is said to: %s", got)
	}
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return strings.Contains(e.Message, "the write layer is 8") },
	)
	if got := s.run(g, "dd if=/dev/zero of=/var/tmp/full bs=1M 2>&1 || true"); !strings.Contains(got, "No space left") {
		s.t.Errorf("the write layer takes everything: %s", got)
	}
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return strings.Contains(e.Message, "writes fail soon") },
	)
	s.run(s.shell(n), "rm /var/tmp/full /var/tmp/almost") // a new login can fix it
	s.wait(
		n.name,
		stepTimeout,
		m,
		func(n api.Node) bool { return n.Status != nil && n.Status.Fullness() == fleet.Roomy },
	)
}

// volumeOutage ends the server while a file is written.
func (s *site) volumeOutage(g *testkit.Guest) {
	s.t.Helper()
	s.run(
		g,
		"dd if=/dev/urandom of=/run/big bs=1M count=64 2>/dev/null; nohup sh -c 'cp /run/big /srv/data/big && "+
			"sync && touch /run/written' > /dev/null 2>&1 & sleep 1",
	)
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-time.After(20 * time.Second)
	if err := s.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.run(g, "until test -e /run/written; do sleep 1; done")
	got := strings.Fields(
		s.run(g, "echo 3 > /proc/sys/vm/drop_caches; cd /srv/data; md5sum /srv/data/big | tee sum; md5sum < /run/big"),
	)
	if len(got) < 3 || got[0] != got[2] {
		s.t.Errorf("what was written over an outage: %v", got)
	}
}
