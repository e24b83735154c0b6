package listing

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"pando/internal/terminal"
	"pando/internal/trace"
)

// TestNodesDoNotSteerTerminals: text from a node cannot control the terminal, also in lines of events.
func TestNodesDoNotSteerTerminals(t *testing.T) {
	e := trace.Event{
		Stage:   trace.Init,
		Kind:    trace.Fail,
		Message: "\x1b]0;title\x07 \x1b[2Jgone\r\nnext",
		Hint:    "\u009b31m",
		Attrs:   map[string]string{"a": "\x1b[8m"},
	}
	if got := EventText(e); strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
		t.Errorf("%q", got)
	}
	for in, want := range map[string]string{"磁盘错误": "磁盘~", "磁a盘": "磁a盘", "é́́́́́́́́": "é́́́́́́́́",
		"a\tb\x00c": "a b c"} {
		if got := terminal.Cut(in, 5); got != want || runewidth.StringWidth(got) > 5 {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestCountersAreTold: the message of an event includes a boot pack's counters.
func TestCountersAreTold(t *testing.T) {
	e := trace.Event{Stage: trace.Booted, Kind: trace.Info, Message: "boot pack: 50.1 MB of 62.0 MB read were in it",
		Attrs: map[string]string{"hits": "0", "late": "0", "misses": "1"}}
	if got := EventText(e); strings.Contains(got, "=") || !strings.Contains(got, e.Message) {
		t.Errorf("%q", got)
	}
	e.Attrs = map[string]string{"address": "10.0.0.1"}
	if got := EventText(e); !strings.HasSuffix(got, "address=10.0.0.1") {
		t.Errorf("%q", got)
	}
}
