package agent

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestCommandThatDoesNotEnd: a config file's command that hangs is reported as such, and not as "signal: killed".
func TestCommandThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if why := runShell(ctx, "exec sleep 60"); !strings.HasPrefix(why, "it did not end in time") {
		t.Errorf("a command that hangs: %q", why)
	}
	if why := runShell(t.Context(), "echo no; exit 3"); why != "exit status 3: no" {
		t.Errorf("a command that fails: %q", why)
	}
}
