package loglimit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// Of a thousand warnings of a kind a hundred are logged. Other warnings and errors pass. The next warning tells how
// many were dropped.
func TestWarningsAreBounded(t *testing.T) {
	var b bytes.Buffer
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	log := slog.New(New(slog.NewTextHandler(&b, nil), func() time.Time { return now }))
	for range 1000 {
		log.With("mac", "x").Warn("script refused")
		log.Error("disk broken")
	}
	log.Warn("another kind")
	now = now.Add(time.Minute)
	log.Warn("script refused")
	for want, n := range map[string]int{
		"script refused": 101, "disk broken": 1000, "another kind": 1, "not_logged=900": 1,
	} {
		if got := strings.Count(b.String(), want); got != n {
			t.Errorf("%q stands %d times in the log, want %d", want, got, n)
		}
	}
}
