package boot

import (
	"context"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// What a node's journal said is read after its kernel died, by unit, boot and text. The next boot finds what the kernel left in pstore, and the boot that died is told with it.
func TestRealBootLeavesItsLogs(t *testing.T) {
	needFull(t)
	s := newSite(t, "own", "--logs", "on")
	n := node{name: "pc001", mac: fleet.MAC{0x52, 0x54, 0, 0x33, 0, 1}, firmware: testkit.UEFI, group: bookworm, memory: 1024}
	s.announce(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.healthy(g)
	s.run(g, "test $(systemctl is-active pando-journal) = active && systemd-run --quiet --unit=mine --wait echo while the server is there")
	s.waitLog(n, api.JournalQuery{Unit: "mine", Grep: "while the server is there"})
	s.waitLog(n, api.JournalQuery{Grep: "^Linux version"})
	first, err := s.API.NodeBoot(t.Context(), n.name)
	if err != nil {
		t.Fatal(err)
	}
	used, err := s.API.NodeLogs(t.Context(), n.name, api.JournalQuery{Last: 10_000})
	if err != nil || len(used.Boots) != 1 {
		t.Fatalf("%+v, %v", used.Boots, err)
	}
	t.Logf("one boot: %d lines, %d bytes on the server; last line by %s", len(used.Lines), used.Boots[0].Bytes, used.Lines[len(used.Lines)-1].Name)

	s.run(g, "nohup sh -c 'sleep 12; logger -t last words of a dying node; sleep 8; sysctl -w kernel.panic=5 kernel.sysrq=1; echo c > /proc/sysrq-trigger' >/dev/null 2>&1 </dev/null &")
	s.waitLog(n, api.JournalQuery{Grep: "words of a dying node"})
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != first.ID && now.Boot.State == trace.Up
	})
	after, err := s.API.NodeLogs(t.Context(), n.name, api.JournalQuery{Boot: "-1", Grep: "words of a dying node"})
	if err != nil || after.Boot != first.ID || len(after.Lines) != 1 || after.Lines[0].Name != "last" {
		t.Errorf("what it said before it died: %+v, %v", after, err)
	}
	s.waitLog(n, api.JournalQuery{Grep: "^Linux version"}) // of the boot that lives
	s.leftInPstore(n, first.ID)
	s.powerOff(m)
	s.waitLog(n, api.JournalQuery{Grep: "Reached target.*(Shutdown|Power|Unmount)|Stopped target"})
}

// waitLog waits until the journal of a node's boot has a line.
func (s *site) waitLog(n node, q api.JournalQuery) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stepTimeout)
	defer cancel()
	for {
		j, err := s.API.NodeLogs(ctx, n.name, q)
		if err == nil && len(j.Lines) > 0 {
			return
		}
		select {
		case <-ctx.Done():
			all, err := s.API.NodeLogs(s.t.Context(), n.name, api.JournalQuery{})
			s.t.Fatalf("no line for %+v: %v; %s; the last ones: %+v", q, err, all.Missing, all.Lines[max(len(all.Lines)-5, 0):])
		case <-time.After(time.Second):
		}
	}
}

// leftInPstore waits until the boot that died has what its kernel left.
func (s *site) leftInPstore(n node, died fleet.BootID) {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		b, err := s.API.Boot(s.t.Context(), died)
		if err == nil && strings.Contains(b.Console, "Kernel panic - not syncing") && b.Fault != nil && b.Fault.Kind == trace.Panic {
			return
		}
		if time.Since(begun) > stepTimeout {
			s.t.Errorf("%s: nothing from pstore: %+v, %v, console:\n%s", n.name, b.Fault, err, b.Console)
			return
		}
	}
}
