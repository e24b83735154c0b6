package access

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pando/internal/registry"
)

// TestSlowAuditLogDelaysNoOthers: while an entry of failed logins is written to a slow disk, other failed logins are
// counted without waiting for it, and the entry has them all in the end.
func TestSlowAuditLogDelaysNoOthers(t *testing.T) {
	t.Parallel()
	reg, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reg.Close() })
	g := New(Config{Registry: reg, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	fail := func() {
		g.auditFailure(t.Context(), registry.Audited{At: time.Now(), From: "10.0.0.9", Who: "root"},
			errors.New("wrong password"))
	}
	held, slow := make(chan bool), make(chan bool)
	go reg.Update(t.Context(), func(*registry.Tx) error { close(held); <-slow; return nil })
	<-held
	first := make(chan bool)
	go func() { fail(); close(first) }()
	writing := func() bool {
		if !g.failures.mu.TryLock() {
			return true
		}
		defer g.failures.mu.Unlock()
		return g.failures.of["10.0.0.9"] != nil
	}
	for !writing() {
		time.Sleep(time.Millisecond)
	}
	others := make(chan bool)
	go func() {
		for range 99 {
			fail()
		}
		close(others)
	}()
	select {
	case <-others:
	case <-time.After(10 * time.Second):
		t.Error("failed logins wait for the audit log of another one")
	}
	close(slow)
	<-first
	<-others
	var lines []registry.Audited
	err = reg.View(t.Context(), func(tx *registry.Tx) (err error) {
		lines, err = tx.Audit(0, 10)
		return err
	})
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0].Error, "100 or more failed logins") {
		t.Errorf("%+v, %v", lines, err)
	}
}
