package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"pando/internal/rundir"
	"pando/internal/trace"
)

// What a boot waits for is reported once, when it was seen twice: systemd's jobs, or why node state is not in place,
// which is a failure. A node that is up reports nothing.
func TestWhatABootWaitsForIsTold(t *testing.T) {
	a := testAgent(t, rundir.Session{})
	jobs := "71 dev-sdb.device start running\n72 multi-user.target start waiting\n"
	a.waits.systemctl = func(context.Context, ...string) (string, error) { return jobs, nil }
	looks := func(times int) (out []trace.Event) {
		for range times {
			a.waits.look(t.Context())
			a.waits.next = 1 // some seconds pass
		}
		return a.report.Take()
	}
	if got := looks(2); len(got) != 0 {
		t.Errorf("at the beginning: %+v", got)
	}
	got := looks(3)
	if len(got) != 1 || got[0].Kind != trace.Info || got[0].Stage != trace.SwitchRoot ||
		got[0].Message != "systemd waits for dev-sdb.device" {
		t.Errorf("it waits for a device: %+v", got)
	}
	why := filepath.Join(a.who.dir, rundir.WaitsName)
	if err := os.WriteFile(why, []byte("node state waits for nas:/export: timed out\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = looks(3)
	if len(got) != 1 || got[0].Kind != trace.Fail || got[0].Stage != trace.Booted ||
		got[0].Message != "node state waits for nas:/export: timed out" {
		t.Errorf("it waits for its state: %+v", got)
	}
	if err := os.Truncate(why, 0); err != nil {
		t.Fatal(err)
	}
	jobs = "No jobs running.\n"
	if got := looks(3); len(got) != 0 {
		t.Errorf("it waits for nothing: %+v", got)
	}
	a.record.up.Store(true)
	jobs = "71 later.service start running\n"
	if got := looks(3); len(got) != 0 {
		t.Errorf("it is up: %+v", got)
	}
}
