package status

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/listing"
	"pando/internal/trace"
)

func TestLoadCounts(t *testing.T) {
	for want, l := range map[string]api.Loads{
		"": {Slots: 10},
		"3 of 10 nodes that may at the same time": {Slots: 10, Loading: 3},
		"10 of 10 nodes that may at the same time; 38 wait for their turn, the last about " +
			"5.7s": {Slots: 10, Loading: 10, Waiting: 38, Expect: 5700 * time.Millisecond},
	} {
		if got := loadCounts(l); got != want {
			t.Errorf("%+v is %q, want %q", l, got, want)
		}
	}
}

// TestTroubleComesFirst: the status and the list of failed boots say what is wrong and what to do.
func TestTroubleComesFirst(t *testing.T) {
	boot := api.Boot{
		ID:   "0123456789abcdef",
		Node: "pc001",
		Fault: &api.Fault{
			Kind:  trace.NoLink,
			Stage: trace.Link,
			Text:  "its adapters see no link",
			Do:    "check the cable",
		},
	}
	var out bytes.Buffer
	env := &cmdenv.Env{Out: &out, Now: time.Now}
	printStatus(env, "here", api.Status{Failed: 9, Trouble: []api.Boot{boot, boot, boot, boot, boot, boot}})
	if got := out.String(); strings.Count(got, "its adapters see no link") != statusFaults ||
		!strings.Contains(got, "9 failed:") ||
		!strings.Contains(got, "and 4 more: pando boot list --failed") ||
		!strings.Contains(got, "to do: check the cable") {
		t.Errorf("status:\n%s", got)
	}
	out.Reset()
	listing.Faults(&out, []api.Boot{boot})
	if got := out.String(); !strings.HasPrefix(got, "pc001  0123456789abcdef") ||
		!strings.Contains(got, "\n  its adapters see no link\n  to do: check the cable\n") {
		t.Errorf("list:\n%s", got)
	}
	out.Reset()
	listing.Faults(&out, nil)
	if got := out.String(); !strings.HasPrefix(got, "no node's latest boot") {
		t.Errorf("nothing wrong:\n%s", got)
	}
}

// TestFullDiskWarning: status warns about a full disk of the server, and says what is in memory only and how to free
// space.
func TestFullDiskWarning(t *testing.T) {
	s := api.Status{Disk: &api.FullDisk{Since: zero, InMemory: 3, Do: "make room"}}
	got := strings.Join(statusWarnings(s), "\n")
	want := "WARNING: the disk of the server is full since 21 Nov 12:00: known nodes boot, changes and uploads are " +
		"refused; 3 boots, leases and events are in memory only\n  to do: make room"
	if got != want {
		t.Errorf("%q", got)
	}
}
