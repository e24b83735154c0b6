package agent

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/rundir"
)

// The agent records on the cache disk, once, that the boot came up. A failure is on the timeline.
func TestAgentNotesThatItBooted(t *testing.T) {
	gone := testAgent(t, rundir.Session{Kept: &rundir.KeptMark{Device: filepath.Join(t.TempDir(), "gone"), Boot: "b1"}})
	gone.kept.look()
	if gone.kept.marked {
		t.Error("it is noted before the node is up")
	}
	gone.record.up.Store(true)
	gone.kept.look()
	soon(t, "the disk is gone", func() bool {
		events := gone.report.Take()
		return len(events) == 1 && events[0].Hint != "" && strings.Contains(events[0].Message, "no such file")
	})
	testAgent(t, rundir.Session{}).kept.look() // on a node that keeps nothing
}

// soon waits until another goroutine has made is true.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%s: not after 10 s", what)
		}
	}
}
