package boot

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// A flipped byte in the store never reaches the node's kernel: it is dropped and reported, the read waits, and the boot
// goes on when the store is mended.
func TestRealBootDropsACorruptObject(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	n := node{"pc001", fleet.MAC{0x52, 0x54, 0, 6, 0, 1}, testkit.BIOS, bookworm, ""}
	s.announce(n)
	record, err := s.API.Node(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	object, err := testkit.FirstObject(t.Context(), s.Config.Data, record.Desired, "/usr/sbin/sshd")
	if err != nil {
		t.Fatal(err)
	}
	mend := flip(t, object)
	m, booted := s.powerOn(n)
	e := s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Kind == trace.Info && strings.Contains(e.Message, "dropped")
	})
	t.Logf("reported: %s %v", e.Message, e.Attrs)
	if b, err := s.API.NodeBoot(t.Context(), n.name); err != nil || b.State == trace.Up {
		t.Errorf("the boot is %q (%v) while ssh cannot be read", b.State, err)
	}
	mend()
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.noErrors(n, g)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Rejected > 0 })
}

// flip changes one byte of an object, in a file of its own: the other sites' stores share the old one.
func flip(t *testing.T, object string) (mend func()) {
	t.Helper()
	good, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	bad[len(bad)/2] ^= 0x40
	put := func(b []byte) {
		t.Helper()
		if err := store.WriteFile(object, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(bad)
	return func() { put(good) }
}

// outage is how long the server is away; nodes must not mind.
const outage = 120 * time.Second

// The server is away for two minutes while cold files are read, and the block daemon is killed while others are: no read
// fails, and every byte is right.
func TestRealBootOutlivesItsServerAndItsDaemon(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own")
	n := node{"pc001", fleet.MAC{0x52, 0x54, 0, 7, 0, 1}, testkit.BIOS, bookworm, ""}
	m := s.boot(n)
	g := s.shell(n)
	files := strings.Fields(s.run(g, "find /usr/share/zoneinfo /usr/share/perl /usr/lib/x86_64-linux-gnu/perl* -xdev -type f | head -n 400"))
	if len(files) < 200 {
		t.Fatalf("only %d cold files", len(files))
	}
	s.away(g, files[:100])
	s.dead(g, m, n, files[100:])
	s.noErrors(n, g)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Stalled > outage/2 })
	if failed := s.run(g, "systemctl --failed --no-legend --plain"); failed != "" {
		t.Errorf("failed units:\n%s", failed)
	}
}

// away reads files while there is no server.
func (s *site) away(g *testkit.Guest, files []string) {
	s.t.Helper()
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), outage+stepTimeout)
	defer cancel()
	read := g.Start(ctx, "sha256sum "+strings.Join(files, " "))
	<-time.After(outage)
	if err := s.Start(ctx); err != nil {
		s.t.Fatal(err)
	}
	out, err := read()
	if err != nil {
		s.t.Fatalf("reading while the server was away: %v", err)
	}
	s.compare(out, len(files))
}

// dead kills the block daemon three times while files are read.
func (s *site) dead(g *testkit.Guest, m *testkit.Machine, n node, files []string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	// The shell is read before its root has nobody behind it; the new daemon has another process id.
	const kill = `for i in 1 2 3; do
		old=$(pgrep -xf '@pando-block.*') && kill -9 $old &&
		until new=$(pgrep -xf '@pando-block.*') && [ "$new" != "$old" ]; do sleep 0.1; done; sleep 2
	done; echo killed`
	read := g.Start(ctx, "sha256sum "+strings.Join(files, " "))
	if out := s.run(g, kill); !strings.HasSuffix(out, "killed") {
		s.t.Errorf("kill: %s", out)
	}
	out, err := read()
	if err != nil {
		s.t.Fatalf("reading while the block daemon was killed: %v", err)
	}
	s.compare(out, len(files))
	s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Kind == trace.Info && strings.Contains(strings.Join([]string{e.Message, e.Attrs["kind"]}, " "), "reattached")
	})
}

// compare holds the output of sha256sum against the image.
func (s *site) compare(sums string, count int) {
	s.t.Helper()
	c := s.content("pc001")
	lines := 0
	for line := range strings.Lines(sums) {
		got, path, _ := strings.Cut(strings.TrimSpace(line), "  ")
		want, err := c.Sum(path)
		if err != nil || got != want {
			s.t.Errorf("%s: sum %s, in the image %s (%v)", path, got, want, err)
		}
		lines++
	}
	if lines != count {
		s.t.Errorf("%d sums of %d files", lines, count)
	}
}
