package command

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestEnded: the error says what ended a program and what to do, not the text of os/exec.
func TestEnded(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"kill -KILL $$": "for want of memory",
		"kill -TERM $$": "told to stop (SIGTERM)",
		"kill -SEGV $$": "it crashed (SIGSEGV)",
		"kill -USR1 $$": "the signal SIGUSR1",
		"exit 3":        "exit status 3",
	} {
		err := exec.CommandContext(t.Context(), "sh", "-c", script).Run()
		got := Ended(t.Context(), err)
		var exit *exec.ExitError
		if !errors.As(got, &exit) || !strings.Contains(got.Error(), want) ||
			strings.Contains(got.Error(), "signal: ") {
			t.Errorf("%s: %v, want %q", script, got, want)
		}
		err = Command{Args: []string{"sh", "-c", script}}.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "signal: ") {
			t.Errorf("%s, run by a build: %v, want %q", script, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := Ended(ctx, exec.CommandContext(ctx, "sleep", "10").Run())
	if err == nil || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("a program that had too little time: %v", err)
	}
	if err := Ended(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
