package boot

import (
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// What a node keeps on its own disk survives a power cut during writes, and a change of the image. A single file is
// saved after each change, however a program replaces it, and at shutdown. The state is reset in part, and as a whole.
func TestRealBootKeepsStateOnADisk(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	state, persist := "disk", []string{"/srv/data", "/etc/issue", "file:/etc/app.lic"}
	for _, g := range []string{bookworm, trixie} {
		if _, err := s.API.SetGroup(t.Context(), g,
			api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state,
				Persist: &persist}}}); err != nil {
			t.Fatal(err)
		}
	}
	n := node{
		name:     "pc005",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 5},
		firmware: testkit.BIOS,
		group:    trixie,
		cache:    s.namedDisk("state.img", fleet.StatePartition),
	}
	s.announce(n)
	m, g := s.stateBoot(n)
	s.run(g, "cd /etc; echo first > app.lic; until grep first /run/pando/state/etc+app.lic; do sleep 0.2; done; "+
		"echo second > app.new; chmod 600 app.new; mv app.new app.lic; until grep second "+
		"/run/pando/state/etc+app.lic; do sleep 0.2; done; "+
		"echo mine > issue; until grep mine /run/pando/state/etc+issue; do sleep 0.2; done")
	s.run(
		g,
		"echo synced > /srv/data/synced; sync; nohup sh -c 'for i in $(seq 400); do dd if=/dev/urandom "+
			"of=/srv/data/$i bs=64k count=4; done' > /dev/null 2>&1 &",
	)
	s.run(g, "until test -e /srv/data/9; do sleep 0.2; done")
	s.cut(m)

	group := bookworm
	if _, err := s.API.SetNodes(t.Context(), api.NodeSet{Select: n.name, Group: &group}); err != nil {
		t.Fatal(err)
	}
	m, g = s.stateBoot(n)
	const look = "cat /srv/data/synced /etc/app.lic /etc/issue; stat -c %a /etc/app.lic; dmesg | grep 'EXT4-fs " +
		"error' || true"
	if got := strings.TrimSpace(s.run(g, look)); got != "synced\nsecond\nmine\n600" {
		t.Errorf("after a power cut, with another image:\n%s", got)
	}
	s.run(
		g,
		"systemctl stop 'pando-kept@*.path'; echo last > /etc/app.lic; sleep 3; ! grep last "+
			"/run/pando/state/etc+app.lic",
	)
	s.powerOff(m)

	s.reset(n, api.StateChange{Paths: []string{"/srv/data"}}, false)
	m, g = s.stateBoot(n)
	if got := strings.TrimSpace(s.run(g, "ls /srv/data;"+look)); got != "last\nmine\n600" {
		t.Errorf("after it was switched off, and a directory reset:\n%s", got)
	}
	s.keptSizes(n, m, "/srv/data", "/etc/issue", "/etc/app.lic")
	s.reset(n, api.StateChange{}, true)
	s.cut(m)

	m, g = s.stateBoot(n)
	if got := strings.TrimSpace(s.run(g, "ls -A /srv/data; test ! -e /etc/app.lic && cat "+
		"/etc/issue")); !strings.HasPrefix(
		got,
		"Debian",
	) {
		t.Errorf("after a reset of everything:\n%s", got)
	}
	s.healthy(g)
	s.powerOff(m)
}
