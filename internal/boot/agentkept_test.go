package boot

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/cache"
)

// A boot counts as good when the node came up: the agent notes it on the disk that the block daemon has open.
func TestAgentNotesThatItBooted(t *testing.T) {
	disk := newCacheDisk(t)
	records, err := cache.OpenRecords(disk.File, disk.Size, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := keptRun{T: t, records: records}
	r.keep("a1", 1, "6.1")
	r.booted("a1")
	r.keep("b1", 2, "6.1")
	a := &agent{
		session: session{Kept: &keptMark{Device: disk.Name, Boot: "b1"}},
		report:  newReporter(nil),
		log:     io.Discard,
	}
	a.keepBooted()
	if a.marked {
		t.Error("it is noted before the node is up")
	}
	r.wants("6.1", "a1")
	a.booted.Store(true)
	a.keepBooted()
	soon(t, "the note", func() bool {
		b, err := pickLastBoot(records, r.cfg, "6.1")
		return err == nil && b.assignment.Boot == "b1"
	})
	if events := a.report.take(); len(events) > 0 {
		t.Errorf("events %+v", events)
	}
	gone := &agent{
		session: session{Kept: &keptMark{Device: filepath.Join(t.TempDir(), "gone"), Boot: "b1"}},
		report:  newReporter(nil),
		log:     io.Discard,
	}
	gone.booted.Store(true)
	gone.keepBooted()
	soon(t, "the disk is gone", func() bool {
		events := gone.report.take()
		return len(events) == 1 && events[0].Hint != "" && strings.Contains(events[0].Message, "no such file")
	})
	(&agent{}).keepBooted() // on a node that keeps nothing
}

// soon waits for what another goroutine does.
func soon(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%s: not after 10 s", what)
		}
	}
}
