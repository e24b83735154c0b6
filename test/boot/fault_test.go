package boot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// bootDamaged boots a node from a damaged store: the manifest is signed by an unknown key, then missing, and a byte of
// an object is wrong. Console and timeline say so, and the same boot continues when the store is repaired.
func (s *site) bootDamaged(n node, version fleet.Digest) *testkit.Machine {
	s.t.Helper()
	object, err := testkit.FirstObject(s.t.Context(), s.Config.Data, version, "/usr/sbin/sshd")
	if err != nil {
		s.t.Fatal(err)
	}
	restore := s.flip(object)
	m, booted := s.powerOn(n)
	s.spoilManifest(n, m, version)
	e := s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Kind == trace.Info && strings.Contains(e.Message, "dropped")
	})
	s.t.Logf("reported: %s %v", e.Message, e.Attrs)
	if b, err := s.API.NodeBoot(s.t.Context(), n.name); err != nil || b.State.Reached() {
		s.t.Errorf("the boot is %q (%v) while ssh cannot be read", b.State, err)
	}
	restore()
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.noErrors(n, g)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Rejected > 0 })
	s.panics(n, m, g)
	return m
}

// panics makes a node's kernel panic. The server receives its last messages, and reports the panic.
func (s *site) panics(n node, m *testkit.Machine, g *testkit.Guest) {
	s.t.Helper()
	s.run(
		g,
		"systemctl is-active pando-netconsole.service && sysctl -w kernel.sysrq=1 && (sleep 1; echo c > "+
			"/proc/sysrq-trigger) >/dev/null 2>&1 </dev/null &",
	)
	e := s.waitEvent(n.name, m, func(e trace.Event) bool { return e.Attrs[trace.AttrPanic] != "" })
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil || b.Fault == nil || b.Fault.Kind != trace.Panic || !strings.Contains(b.Console, "sysrq") {
		s.t.Errorf("%s said %q; %+v, %v, console:\n%s", n.name, e.Message, b.Fault, err, b.Console)
	}
}

// refused checks what the site says about a waiting boot whose manifest has no trusted signature.
func (s *site) refused(n node) {
	s.t.Helper()
	failed, err := s.API.FailedBoots(s.t.Context(), n.name, 0)
	if err != nil || len(failed) != 1 || failed[0].Fault.Kind != trace.SignatureRefused {
		s.t.Errorf("failed boots: %+v, %v", failed, err)
	}
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if text := strings.Join(b.ConsoleLines(), "\n"); err != nil ||
		!strings.Contains(text, "manifest FAILED, attempt 1") ||
		!strings.Contains(text, "Linux version") && !strings.Contains(text, "] pando: ") {
		s.t.Errorf("console: %v\n%s", err, text)
	}
}

// spoilManifest gives a node that is about to load its kernel a manifest that an unknown key signed, then none, and
// then the good one. The server itself has verified the manifest before, because it sends no script for an unsigned
// version.
func (s *site) spoilManifest(n node, m *testkit.Machine, version fleet.Digest) {
	s.t.Helper()
	s.waitEvent(n.name, m, reached(trace.Script))
	file := filepath.Join(s.Config.Data, "store", "manifests", strings.TrimPrefix(string(version), "sha256:"))
	manifest, signature := file+".json", file+".minisig"
	data, good := s.read(manifest), s.read(signature)
	_, unknown, err := minisign.GenerateKey(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(signature, image.Sign(unknown, data))
	first := s.failedAt(n, m, "signature", "not signed by a key that the site trusts")
	for _, said := range []string{"manifest FAILED, attempt 1", "what: .*signature.*tried: " +
		"http://10.77.0.1:", "to do: .*not signed by a key", "now: .*trying again in"} {
		ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
		if _, err := m.Console.Wait(ctx, said); err != nil {
			s.t.Error(err)
		}
		cancel()
	}
	s.refused(n)
	if err := errors.Join(os.Remove(manifest), os.Remove(signature)); err != nil {
		s.t.Fatal(err)
	}
	gone := s.failedAt(n, m, "404", "has lost this version")
	s.write(manifest, data)
	s.write(signature, good)
	repaired := s.waitEvent(
		n.name,
		m,
		func(e trace.Event) bool { return e.Stage == trace.Manifest && e.Kind == trace.End },
	)
	if gone.Boot != first.Boot || repaired.Boot != first.Boot || repaired.Attempt <= gone.Attempt {
		s.t.Errorf("%s: first %+v, then %+v, repaired %+v", n.name, first, gone, repaired)
	}
}

// failedAt waits until the manifest stage has failed for a reason, with a hint, and the node reports that it tries
// again.
func (s *site) failedAt(n node, m *testkit.Machine, reason, hint string) trace.Event {
	s.t.Helper()
	e := s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Stage == trace.Manifest && e.Kind == trace.Fail && strings.Contains(e.Message, reason)
	})
	if !strings.Contains(e.Hint, hint) || !strings.Contains(e.Attrs["next"], "trying again in") {
		s.t.Errorf("%s: reported %q, hint %q, %v", n.name, e.Message, e.Hint, e.Attrs)
	}
	return e
}

func (s *site) read(file string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

// write replaces a file instead of changing it, because stores of other sites have hard links to it.
func (s *site) write(file string, data []byte) {
	s.t.Helper()
	if err := store.WriteFile(file, data, 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// flip changes one byte of an object. repair restores it.
func (s *site) flip(object string) (repair func()) {
	s.t.Helper()
	good := s.read(object)
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 0x40
	s.write(object, bad)
	return func() { s.write(object, good) }
}

// outage returns how long the server is down; nodes must cope with that.
func outage() time.Duration {
	if full() {
		return 120 * time.Second
	}
	return 30 * time.Second
}

// The server ends three times during a boot. Then it is down while cold files are read, and the block daemon is killed
// during other reads: no read fails, and every byte is right. The timeline reports both. The node's log lines of all
// that time are on the server in order, even after a power cut.
func TestRealBootOutlivesItsServerAndItsDaemon(t *testing.T) {
	needBoot(t)
	s := newSite(t, "own", "--logs", "on")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 7, 0, 1}, firmware: testkit.BIOS, group: bookworm}
	s.announce(n)
	s.makePack(n, "usr/lib/systemd/systemd", "usr/sbin/sshd") // with which there is a swarm
	begun := time.Now()
	m := s.bootOverRestarts(n)
	g := s.shell(n)
	s.run(g, "test \"$(systemctl is-system-running --wait)\" = running")
	talk := s.startTalking(n, g)
	files := strings.Fields(
		s.run(
			g,
			"find /usr/share/zoneinfo /usr/share/perl /usr/lib/x86_64-linux-gnu/perl* -xdev -type f | head -n 400",
		),
	)
	if len(files) < 200 {
		t.Fatalf("only %d cold files", len(files))
	}
	if got := s.run(g, "cat /sys/block/nbd0/queue/read_ahead_kb"); got != "32" {
		t.Errorf("the kernel reads %s KiB ahead of the root", got)
	}
	s.away(g, files[:100])
	back := time.Now()
	kinds := []blockapi.IncidentKind{blockapi.ServerDown, blockapi.ServerUp}
	if full() { // a node that has its whole boot pack sends an announcement once a minute
		kinds = append(kinds, blockapi.TrackerLost, blockapi.TrackerUp)
	}
	for _, k := range kinds {
		s.incident(n, m, k, begun, back)
	}
	last := s.talked(n, talk.boot, talk.last+int(outage().Seconds())/2) // an emulated second may be long
	s.dead(g, m, n, files[100:])
	s.noErrors(n, g)
	s.wait(n.name, stepTimeout, m, func(n api.Node) bool { return n.Status != nil && n.Status.Stalled > outage()/2 })
	if failed := s.run(g, "systemctl --failed --no-legend --plain"); failed != "" {
		t.Errorf("failed units:\n%s", failed)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if kept := s.talked(n, talk.boot, 0); kept < last {
		t.Errorf("lines to %d are left, %d were there", kept, last)
	}
}

// incident waits until the timeline on the server has an incident at the time when it happened. A repeated incident of
// the same kind may be omitted. Good news may come later.
func (s *site) incident(n node, m *testkit.Machine, kind blockapi.IncidentKind, after, before time.Time) {
	s.t.Helper()
	e := s.waitEvent(n.name, m, func(e trace.Event) bool {
		return e.Attrs[trace.AttrIncident] == string(kind) && !e.Time.Before(after.Add(-clockSlack))
	})
	good := kind == blockapi.ServerUp || kind == blockapi.TrackerUp
	if e.Kind != trace.Info || (e.Hint == "") != good {
		s.t.Errorf("the timeline has %+v", e)
	}
	if !good && e.Time.After(before.Add(clockSlack)) {
		s.t.Errorf("%s is told as of %v, want it before %v", kind, e.Time, before)
	}
	s.t.Logf("%8s %s", e.Time.Sub(after).Round(100*time.Millisecond), e.Message)
}

// clockSlack bounds the difference between times on a timeline and the server's clock: the duration of the first
// report.
const clockSlack = 5 * time.Second

// away reads files while the server is down.
func (s *site) away(g *testkit.Guest, files []string) {
	s.t.Helper()
	if err := s.Kill(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), outage()+stepTimeout)
	defer cancel()
	read := g.Start(ctx, "sha256sum "+strings.Join(files, " "))
	<-time.After(outage())
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
	// The shell's code is in memory before the daemon is killed. The new daemon has another process id.
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
	s.waitEvent(
		n.name,
		m,
		func(e trace.Event) bool { return e.Attrs[trace.AttrIncident] == string(blockapi.Reattached) },
	)
}

// compare compares the output of sha256sum with the image.
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
