package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// Files with properties that a copy may lose: unknown owners, a set-uid bit, an attribute, a capability, an ACL, hard
// and symbolic links, a hole, a time. Debian's smallest image has no program for attributes, so perl's syscall is used.
const (
	oddFiles = `cd /srv/data && echo text > plain && chown 1234:2345 plain && chmod 4751 plain && touch -d @1700000000 plain && ln plain hard && ln -s ../nowhere soft &&
truncate -s 200M hole && echo end >> hole && mkdir -m 1777 "a dir" && echo -n x > "a dir/.hidden" && mkfifo pipe &&
perl -e 'for (["user.pando", "kept"], ["security.capability", pack("V5", 0x02000001, 1<<10, 0, 0, 0)],
  ["system.posix_acl_access", pack("V(vvV)5", 2, 1,6,-1, 2,4,1234, 4,4,-1, 16,4,-1, 32,0,-1)]) {
  my ($name, $value) = @$_; my $path = $name =~ /^user/ ? "plain" : "a dir/.hidden"; syscall(188, $path, $name, $value, length $value, 0) == 0 or die "$name: $!" }' && sync`
	showOdd = `cd /srv/data && find . -exec stat -c '%n %F %u:%g %a %h %Y %s' {} + | grep -v '^\. ' | sort | sed '/directory\|fifo\|symbolic/s/ [0-9]* [0-9]*$//' && cat plain && readlink soft &&
[ plain -ef hard ] && tail -c 4 hole && [ $(du -m hole | cut -f1) -lt 10 ] &&
perl -e 'for (["plain", "user.pando"], ["a dir/.hidden", "security.capability"], ["a dir/.hidden", "system.posix_acl_access"]) {
  my ($path, $name) = @$_; my $v = "\0" x 100; my $n = syscall(191, $path, $name, $v, 100); print "$name ", unpack("H*", substr $v, 0, $n < 0 ? 0 : $n), "\n" }'`
)

// The state on one node's disk is copied to another node's disk with all properties of files: the next boot of the one
// sends it, the first boot of the other after that fetches it. The server deletes it after arrival.
func TestRealBootCopiesStateBetweenDisks(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	state, persist := "disk", []string{"/srv/data", "file:/etc/app.lic"}
	if _, err := s.API.SetGroup(t.Context(), trixie,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state,
			Persist: &persist}}}); err != nil {
		t.Fatal(err)
	}
	a := node{
		name:     "pc007",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 7},
		firmware: testkit.BIOS,
		group:    trixie,
		cache:    s.namedDisk("a.img", fleet.StatePartition),
	}
	b := node{
		name:     "pc008",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 8},
		firmware: testkit.BIOS,
		group:    trixie,
		cache:    s.namedDisk("b.img", fleet.StatePartition),
	}
	s.announce(a)
	s.announce(b)
	ma, ga := s.stateBoot(a)
	s.run(
		ga,
		oddFiles+" && echo licence > /etc/app.lic; until grep licence /run/pando/state/etc+app.lic; do sleep 0.2; done",
	)
	want := s.run(ga, showOdd)
	t.Logf("%s", want)
	ma, _ = s.sends(a, b, ma)
	spool := filepath.Join(s.Config.Data, "parcels")
	left, _ := os.ReadDir(spool)
	if len(left) != 1 {
		t.Fatalf("on the server: %v", left)
	}
	if info, err := left[0].Info(); err != nil || info.Mode() != 0o600 || info.Size() > 5e6 {
		t.Errorf("on the server: %v, %v", info, err)
	}
	s.cut(ma)

	mb := s.hasCopy(b, a, want)
	if left, _ := os.ReadDir(spool); len(left) != 0 {
		t.Errorf("fetched, it is still on the server: %v", left)
	}
	// And back: the other node's next boot sends it, before services can write.
	s.run(s.shell(b), "rm -r '/srv/data/a dir' && echo other > /srv/data/plain && sync")
	mb, gb := s.sends(b, a, mb)
	want = s.run(gb, showSmall)
	s.cut(mb)
	ma, ga = s.arrives(a, b)
	if got := s.run(ga, showSmall); got != want || !strings.Contains(got, "other") {
		t.Errorf("copied back:\n%s\nand not\n%s", got, want)
	}
	s.powerOff(ma)
}

const showSmall = "cd /srv/data && ls && cat plain /etc/app.lic"

// hasCopy boots a node that gets the state of another node.
func (s *site) hasCopy(n, from node, want string) *testkit.Machine {
	s.t.Helper()
	m, g := s.arrives(n, from)
	if got := s.run(g, showOdd); got != want {
		s.t.Errorf("copied:\n%s\nand not\n%s", got, want)
	}
	if got := strings.TrimSpace(s.run(g,
		"cat /etc/app.lic; ls -A /run/pando/state/+pando")); got != "licence\ndone\nsince" {
		s.t.Errorf("a file that is kept, and what is left beside the state:\n%s", got)
	}
	return m
}

// State is copied from a disk to a volume, from there to an NFS server, and back to the disk, each time by a boot of
// the sending and one of the receiving node. A volume keeps everything; NFS has neither attributes nor capabilities,
// and the rest still arrives.
func TestRealBootCopiesStateBetweenPlaces(t *testing.T) {
	needFull(t)
	s := newSite(t, "own")
	nfs, err := testkit.StartNFS(t.Context(), s.net, filepath.Join(s.dir, "export"), filepath.Join(s.dir, "nfs"))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { logError(t, nfs.Close()) })
	state, persist := "disk", []string{"/srv/data", "file:/etc/app.lic"}
	if _, err := s.API.SetGroup(t.Context(), trixie,
		api.GroupSet{Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &state,
			Persist: &persist}}}); err != nil {
		t.Fatal(err)
	}
	disk := node{
		name:     "pc017",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 17},
		firmware: testkit.BIOS,
		group:    trixie,
		cache:    s.namedDisk("a.img", fleet.StatePartition),
	}
	volume := node{name: "pc018", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 18}, firmware: testkit.BIOS, group: trixie}
	onNFS := node{name: "pc019", mac: fleet.MAC{0x52, 0x54, 0, 26, 0, 19}, firmware: testkit.BIOS, group: trixie}
	for _, n := range []node{disk, volume, onNFS} {
		s.announce(n)
	}
	for n, on := range map[string]string{volume.name: "volume 1GB", onNFS.name: "nfs " + nfs.Export} {
		if _, err := s.API.SetNodes(t.Context(),
			api.NodeSet{Select: n, Settings: fleet.Settings{Keeping: fleet.Keeping{StateOn: &on}}}); err != nil {
			t.Fatal(err)
		}
	}
	m, g := s.stateBoot(disk)
	s.run(
		g,
		oddFiles+" && echo licence > /etc/app.lic; until grep licence /run/pando/state/etc+app.lic; do sleep 0.2; done",
	)
	want, small := s.run(g, showOdd), s.run(g, showUsual)
	m, _ = s.sends(disk, volume, m)
	s.cut(m)
	m = s.hasCopy(volume, disk, want)
	m, _ = s.sends(volume, onNFS, m)
	s.cut(m)

	m, g = s.arrives(onNFS, volume)
	if got := s.run(g, showUsual); got != small {
		t.Errorf("from a volume to NFS:\n%s\nand not\n%s", got, small)
	}
	s.run(g, "echo other > /srv/data/plain && sync")
	small = s.run(g, showUsual)
	m, _ = s.sends(onNFS, disk, m)
	s.cut(m)
	m, g = s.arrives(disk, onNFS)
	if got := s.run(g, showUsual); got != small || !strings.Contains(got, "other") {
		t.Errorf("from NFS to a disk:\n%s\nand not\n%s", got, small)
	}
	s.powerOff(m)
}

// showUsual shows the part of showOdd that every file system supports.
const showUsual = `cd /srv/data && find . -exec stat -c '%n %F %u:%g %a %h %Y %s' {} + | grep -v '^\. ' | sort | sed '/directory\|fifo\|symbolic/s/ [0-9]* [0-9]*$//' &&
cat plain /etc/app.lic && readlink soft && [ plain -ef hard ] && tail -c 4 hole`

// sends orders a copy of the state of a running node, and boots that node again, which sends its state.
func (s *site) sends(from, to node, m *testkit.Machine) (*testkit.Machine, *testkit.Guest) {
	s.t.Helper()
	out, err := s.API.CopyState(s.t.Context(), to.name, api.StateChange{From: from.name})
	if err != nil || len(out.Orders) != 1 || !out.Orders[0].Waits() {
		s.t.Fatalf("%+v, %v", out, err)
	}
	s.cut(m)
	m, g := s.stateBoot(from)
	s.waitEventFor(
		from.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return e.Message == "the node's state was sent to the server, for "+to.name },
	)
	return m, g
}

// arrives boots a node that gets the state of another node.
func (s *site) arrives(n, from node) (*testkit.Machine, *testkit.Guest) {
	s.t.Helper()
	m, g := s.stateBoot(n)
	s.waitEventFor(
		n.name,
		stepTimeout,
		m,
		func(e trace.Event) bool { return e.Message == "the node's state was made a copy of that of "+from.name },
	)
	s.healthy(g)
	return m, g
}
