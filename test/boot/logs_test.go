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

// What a node's journal said is read after its kernel died, by unit, boot and text. The next boot finds what the
// kernel left in pstore, and the boot that died is told with it.
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
	// The end of the boot starts it, not the time that this one took alone: what systemd says of that command is
	// empty, or another word, when it did not work.
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

// leftInPstore waits until the boot that died has what its kernel left.
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

// talking is a node that logs a line a second, by a unit called talk.
type talking struct {
	boot fleet.BootID
	last int // line that had come when it was begun
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

// talked waits until the lines of the unit talk have come up to a number at least, and returns the highest. None
// may be missing below it.
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

// inOrder is the highest number of the lines of talk, -1 for none. What was sent twice when the server was killed
// may stand there twice.
func (s *site) inOrder(j api.Journal) int {
	s.t.Helper()
	last := -1
	for _, l := range j.Lines {
		text, ok := strings.CutPrefix(l.Text, "line ")
		if !ok {
			continue // systemd's own
		}
		i, err := strconv.Atoi(text)
		if err != nil || i > last+1 {
			s.t.Fatalf("%q follows line %d", l.Text, last)
		}
		last = max(last, i)
	}
	return last
}
