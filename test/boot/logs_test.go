package boot

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// The journal of a node is on the server after its kernel panicked, and can be read by unit, boot and text. The next
// boot finds the panic in pstore, and the server adds it to the boot that panicked.
func TestRealBootLeavesItsLogs(t *testing.T) {
	needFull(t)
	s := newSite(t, "own", "--logs", "on")
	n := node{
		name:     "pc001",
		mac:      fleet.MAC{0x52, 0x54, 0, 0x33, 0, 1},
		firmware: testkit.UEFI,
		group:    bookworm,
		memory:   1024,
	}
	s.announce(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.healthy(g)
	// The unit starts at the end of the boot, which may take longer than this command; a failed command prints another
	// text.
	s.run(
		g,
		"timeout 60 sh -c 'until systemctl show -p ExecStartPost pando-booted.service | grep -q "+
			"\"pando-journal.service.*status=0\"; do sleep 1; done'",
	)
	s.run(
		g,
		"timeout 20 sh -c 'until systemctl -q is-active pando-journal; do sleep 1; done' && systemd-run --quiet "+
			"--unit=mine --wait echo while the server is there",
	)
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
	t.Logf(
		"one boot: %d lines, %d bytes on the server; last line by %s",
		len(used.Lines),
		used.Boots[0].Bytes,
		used.Lines[len(used.Lines)-1].Name,
	)

	s.run(
		g,
		"nohup sh -c 'sleep 12; logger -t last words of a dying node; sleep 8; sysctl -w kernel.panic=5 "+
			"kernel.sysrq=1; echo c > /proc/sysrq-trigger' >/dev/null 2>&1 </dev/null &",
	)
	s.waitLog(n, api.JournalQuery{Grep: "words of a dying node"})
	s.wait(n.name, bootTimeout, m, func(now api.Node) bool {
		return now.Boot != nil && now.Boot.ID != first.ID && now.Boot.State.Reached()
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
			s.t.Fatalf(
				"no line for %+v: %v; %s; the last ones: %+v",
				q,
				err,
				all.Missing,
				all.Lines[max(len(all.Lines)-5, 0):],
			)
		case <-time.After(time.Second):
		}
	}
}

// leftInPstore waits until the panicked boot has the record of its kernel.
func (s *site) leftInPstore(n node, died fleet.BootID) {
	s.t.Helper()
	for begun := time.Now(); ; time.Sleep(time.Second) {
		b, err := s.API.Boot(s.t.Context(), died)
		if err == nil && strings.Contains(b.Console, "Kernel panic - not syncing") && b.Fault != nil &&
			b.Fault.Kind == trace.Panic {
			return
		}
		if time.Since(begun) > stepTimeout {
			s.t.Errorf("%s: nothing from pstore: %+v, %v, console:\n%s", n.name, b.Fault, err, b.Console)
			return
		}
	}
}

// talking is a node with a unit named talk that logs a line every second.
type talking struct {
	boot fleet.BootID
	last int // last line that the server had at the beginning
}

func (s *site) startTalking(n node, g *testkit.Guest) talking {
	s.t.Helper()
	b, err := s.API.NodeBoot(s.t.Context(), n.name)
	if err != nil {
		s.t.Fatal(err)
	}
	s.run(g, `systemd-run --quiet --unit=talk sh -c 'i=0; while :; do echo "line $i"; i=$((i+1)); sleep 1; done'`)
	return talking{b.ID, s.talked(n, b.ID, 3)}
}

// talked waits until the lines of unit talk have reached at least a number, and returns the last number. It fails if a
// line below that is missing.
func (s *site) talked(n node, boot fleet.BootID, least int) (last int) {
	s.t.Helper()
	begun := time.Now()
	for last = -1; last < least; time.Sleep(time.Second) {
		c := exec.CommandContext(
			s.t.Context(),
			filepath.Join(binDir, "pando"),
			"--data",
			s.Config.Data,
			"node",
			"logs",
			n.name,
			"--boot",
			string(boot),
			"--unit",
			"talk",
			"-n",
			"10000",
			"--json",
		)
		out, err := c.Output()
		var j api.Journal
		if err == nil {
			err = json.Unmarshal(out, &j)
		}
		if err != nil {
			s.t.Fatalf("%v: %v: %s", c.Args, err, out)
		}
		last = s.inOrder(j)
		if time.Since(begun) > stepTimeout {
			s.t.Fatalf("lines to %d have come, and %d was waited for", last, least)
		}
	}
	return last
}

// inOrder returns the last number of talk's lines, -1 for none. Lines that were sent again after the server was killed
// may be doubled.
func (s *site) inOrder(j api.Journal) int {
	s.t.Helper()
	last := -1
	for _, l := range j.Lines {
		text, ok := strings.CutPrefix(l.Text, "line ")
		if !ok {
			continue // a line of systemd
		}
		i, err := strconv.Atoi(text)
		if err != nil || i > last+1 {
			s.t.Fatalf("%q follows line %d", l.Text, last)
		}
		last = max(last, i)
	}
	return last
}
