package testkit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConsoleDropsWhatMovesTheCursor(t *testing.T) {
	c := Console{filepath.Join(t.TempDir(), "console")}
	if text, err := c.Text(); text != "" || err != nil {
		t.Fatalf("console of a machine that has not started: %q, %v", text, err)
	}
	raw := "\x1bc\x1b[?7l\x1b[2J\x1b[1;1HiPXE\r\n\x1b[1m\x1b[36mfeatures\x1b[0m: HTTP\r\nlast"
	if err := os.WriteFile(c.Path, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := c.Wait(t.Context(), "^features")
	if err != nil || line != "features: HTTP" {
		t.Errorf("got %q, %v", line, err)
	}
	if got := c.Tail(1); got != "last" {
		t.Errorf("tail is %q", got)
	}
}

func TestConsoleSaysHowItEndedWhenALineNeverCame(t *testing.T) {
	c := Console{filepath.Join(t.TempDir(), "console")}
	if err := os.WriteFile(c.Path, []byte("Kernel panic\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Wait(ctx, "login:"); err == nil || !strings.Contains(err.Error(), "Kernel panic") {
		t.Errorf("got %v", err)
	}
}
