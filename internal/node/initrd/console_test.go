package initrd

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pando/internal/trace"
)

func TestDescribe(t *testing.T) {
	fail := trace.Event{Stage: trace.Register, Kind: trace.Fail, Attempt: 3, Message: "no answer (tried: x)",
		Hint: "start the server", Attrs: map[string]string{"next": "trying again in 2s"}}
	for _, c := range []struct {
		e     trace.Event
		want  string
		level int
	}{
		{trace.Event{Stage: trace.Link, Kind: trace.Begin}, "", logNotice},
		{trace.Event{Stage: trace.Link, Kind: trace.End, Message: "eth0", Hint: "not said"}, "link       eth0 " +
			"(1.50 s)", logNotice},
		{fail, "hello FAILED, attempt 3\n  what:  no answer (tried: x)\n  to do: start the server\n  now:   " +
			"trying again in 2s", logCritical},
	} {
		got, level := describe(c.e, 1500*time.Millisecond)
		if got != c.want || level != c.level {
			t.Errorf("got %q, level %d; want %q, %d", got, level, c.want, c.level)
		}
	}
}

// With `quiet loglevel=1` the kernel shows nothing, so a failure is written to the console itself.
func TestConsoleIsNeverSilent(t *testing.T) {
	if !hidden("1 4 1 7\n") || !hidden("2\t4\t1\t7") || hidden("4 4 1 7") || hidden("") {
		t.Error("the log level is read wrongly")
	}
	var kmsg, direct bytes.Buffer
	c := console{kmsg: &kmsg, direct: &direct}
	c.print(logNotice, "all well")
	c.print(logCritical, "broken\nbadly")
	if want := "<5>pando: all well\n<2>pando: broken\n<2>pando: badly\n"; kmsg.String() != want {
		t.Errorf("kernel log %q, want %q", kmsg.String(), want)
	}
	if want := "pando: broken\r\npando: badly\r\n"; direct.String() != want {
		t.Errorf("console %q, want %q", direct.String(), want)
	}
	kmsg.Reset()
	c.print(logNotice, strings.Repeat("x", 5000))
	if kmsg.Len() > 1000 {
		t.Errorf("a line of %d bytes: the kernel refuses more than about 1000", kmsg.Len())
	}
}
