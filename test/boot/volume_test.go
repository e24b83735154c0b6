package boot

import (
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// A node keeps what it says on a volume of its own. While the server is away its writes wait and go on, with nothing lost; when its power is
// cut in the middle of writing, the file system is whole and what was synced is there.
func TestRealBootOnAVolume(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	state, persist := "volume 1GB", []string{"/srv/data"}
	keeping := fleet.Keeping{StateOn: &state, Persist: &persist}
	if _, err := s.API.SetGroup(t.Context(), trixie, api.GroupSet{Keeping: keeping}); err != nil {
		t.Fatal(err)
	}
	n := node{name: "pc002", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 2}, firmware: testkit.BIOS, group: trixie}
	s.announce(n)
	m, g := s.stateBoot(n)
	s.volumeOutage(g)
	s.run(g, "echo synced > /srv/data/synced; sync; nohup sh -c 'for i in $(seq 400); do dd if=/dev/urandom of=/srv/data/$i bs=64k count=4; done' > /dev/null 2>&1 &")
	s.run(g, "until test -e /srv/data/5; do sleep 0.2; done")
	s.cut(m)

	m, g = s.stateBoot(n)
	if got := s.run(g, "cat /srv/data/synced; md5sum -c /srv/data/sum"); got != "synced\n/srv/data/big: OK\n" {
		t.Errorf("after a power cut:\n%s", got)
	}
	if got := s.run(g, "dmesg | grep -iE 'nbd1.*(error|fail)|EXT4-fs error' || true"); got != "" {
		t.Errorf("the kernel says\n%s", got)
	}
	s.run(g, "umount /srv/data && umount /run/pando/state && fsck.ext4 -fn /dev/nbd1")
	s.powerOff(m)
}

// volumeOutage ends the server while a file is written.
func (s *site) volumeOutage(g *testkit.Guest) {
	s.t.Helper()
	s.run(g, "dd if=/dev/urandom of=/run/big bs=1M count=64 2>/dev/null; nohup sh -c 'cp /run/big /srv/data/big && sync && touch /run/written' > /dev/null 2>&1 & sleep 1")
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-time.After(20 * time.Second)
	if err := s.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.run(g, "until test -e /run/written; do sleep 1; done")
	got := strings.Fields(s.run(g, "echo 3 > /proc/sys/vm/drop_caches; cd /srv/data; md5sum /srv/data/big | tee sum; md5sum < /run/big"))
	if len(got) < 3 || got[0] != got[2] {
		s.t.Errorf("what was written over an outage: %v", got)
	}
}
