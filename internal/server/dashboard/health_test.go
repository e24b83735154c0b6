package dashboard

import (
	"strings"
	"testing"
	"time"

	"pando/internal/api"
)

// TestLogFindings: problems with the journals of nodes are listed with what to do, and nothing else is.
func TestLogFindings(t *testing.T) {
	on := api.Logs{
		State:   api.LogsOn,
		Held:    4e6,
		Bound:   10 << 30,
		Entries: 600,
		Bytes:   3e5,
		Last:    noon.Add(-time.Minute),
	}
	with := func(change func(*api.Logs)) api.Logs {
		l := on
		change(&l)
		return l
	}
	for _, c := range []struct {
		what, want string
		logs       api.Logs
		up         int
		grave      bool
	}{
		{"well", "", on, 40, false},
		{"off", "", api.Logs{State: api.LogsOff}, 40, false},
		{"missing", "not installed", api.Logs{State: api.LogsMissing}, 40, false},
		{"full", "is full", with(func(l *api.Logs) { l.Full = true }), 40, true},
		{"refused", "2\u00a0uploads",
			with(func(l *api.Logs) { l.Uploads = map[string]int64{"failed": 1, "malformed": 1, "stranger": 5} }), 40,
			false},
		{"never", "No journal has come", with(func(l *api.Logs) { l.Last = time.Time{} }), 40, false},
		{"never, and none is up", "", with(func(l *api.Logs) { l.Last = time.Time{} }), 0, false},
	} {
		s := api.Status{Started: noon.Add(-time.Hour), Time: noon, Logs: c.logs, Nodes: map[string]int{"booted": c.up}}
		got := logFindings(s)
		if len(got) == 0 && c.want == "" {
			continue
		}
		if len(got) != 1 || !strings.Contains(got[0].Text, c.want) || got[0].Do == "" || got[0].Grave != c.grave {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
	if got := logsText(with(func(l *api.Logs) { l.Uploads = map[string]int64{"stranger": 1} }),
		noon); !strings.Contains(
		got,
		"600\u00a0lines",
	) ||
		!strings.Contains(got, "1\u00a0upload refused") ||
		!strings.Contains(got, "1\u00a0min ago") {
		t.Errorf("%q", got)
	}
}

// TestFullDiskFinding: the page says that the disk of the server is full, and what makes room.
func TestFullDiskFinding(t *testing.T) {
	got := findings(api.Status{Disk: &api.FullDisk{Since: noon, Do: "make room"}})
	if len(got) == 0 || !strings.HasPrefix(got[0].Text, "The disk of the server is full since ") ||
		got[0].Do != "Make room." {
		t.Errorf("%+v", got)
	}
}
