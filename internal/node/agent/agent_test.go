package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/rundir"
)

func TestMarks(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"firefox ready", "booted"} {
		if err := rundir.Mark(dir, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"", "../x", "UPPER", " ", "dhcp", "initramfs", "hello", "shutdown"} {
		if err := rundir.Mark(dir, bad); err == nil {
			t.Errorf("mark %q was taken", bad)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, rundir.MarksName))
	if err != nil {
		t.Fatal(err)
	}
	got, used := parseMarks(append(data, []byte("nonsense\n{\"name\":\"half")...))
	if len(got) != 2 || got[0].Name != "firefox-ready" || got[1].Name != "booted" || got[1].At < got[0].At ||
		got[0].At <= 0 {
		t.Errorf("marks %+v", got)
	}
	if used != len(data)+len("nonsense\n") {
		t.Errorf("%d bytes used: a line that is half written must be read again", used)
	}
}

func TestAgentDue(t *testing.T) {
	base := api.NodeStatus{Reads: 5, Bytes: map[string]int64{"server": 9}}
	done := base
	done.Systemd = &api.Systemd{State: "running"}
	more := done
	more.Reads = 6
	wrong := done
	wrong.Rejected = 1
	written := done
	written.UpperUsed = 4096
	for _, c := range []struct {
		name      string
		last, now api.NodeStatus
		ago       time.Duration
		want      due
	}{
		{"nothing new", done, done, 10 * time.Second, nothingDue},
		{"nothing new for long", done, done, beatEvery, heartbeat},
		{"nothing new for very long", done, done, time.Hour, heartbeat},
		{"systemd's figures", base, done, time.Second, fullStatus},
		{"reads while booting", api.NodeStatus{}, base, time.Second, fullStatus},
		{"reads of a running node", done, more, 2 * time.Second, nothingDue},
		{"reads of a running node, later", done, more, beatEvery / 2, fullStatus},
		{"wrong bytes", done, wrong, time.Second, fullStatus},
		{"memory written", done, written, 2 * beatEvery, heartbeat},
		{"memory written, later", done, written, spacePause, fullStatus},
	} {
		sent := time.Now().Add(-c.ago)
		a := testAgent(t, rundir.Session{})
		a.status.last, a.status.sent, a.status.beat = c.last, sent, beatEvery
		a.spoke.Store(&sent)
		if got := a.status.due(c.now); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
}
