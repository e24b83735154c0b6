package node

import (
	"bytes"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
)

func TestLogTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"": {}, "2h": now.Add(-2 * time.Hour), "-30m": now.Add(-30 * time.Minute),
		"2026-11-22":       now.Add(-12 * time.Hour),
		"2026-11-22 08:00": now.Add(-4 * time.Hour), "2026-11-22 " +
			"08:00:30": now.Add(-4*time.Hour + 30*time.Second), now.UTC().Format(time.RFC3339): now,
	} {
		if got, err := logTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := logTime("yesterday-ish", now); err == nil {
		t.Error("a time that is none was taken")
	}
}

// TestLogLine: text from a node cannot move the reader's cursor, and further lines of an entry are indented below its
// first.
func TestLogLine(t *testing.T) {
	var out bytes.Buffer
	env := &cmdenv.Env{Out: &out}
	at := time.Date(2026, 11, 22, 8, 0, 1, 0, time.Local)
	printLogLine(env, "pc001", true, api.JournalLine{Time: at, Name: "sshd", PID: 7, Text: "one\n\x1b[2Jtwo"})
	printLogLine(env, "pc001", false, api.JournalLine{Time: at, Name: "kernel", Text: "three"})
	want := "Nov 22 08:00:01 pc001 sshd[7]: one\n                       [2Jtwo\nNov 22 08:00:01 kernel: three\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
}
