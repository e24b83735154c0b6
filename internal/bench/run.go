package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Run runs a program. Its error has the program's output.
func Run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Once makes a file unless it exists. It writes to a temporary name first.
func Once(file string, write func(tmp string) error) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(file + ".new"); err != nil {
		return err
	}
	if err := write(file + ".new"); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Pause waits for d. It returns early with an error when ctx is done.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// MostReason bounds the text of an error, in bytes, because it may quote a log.
const MostReason = 400

// Reason returns the text of an error in one line.
func Reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > MostReason {
		text = strings.ToValidUTF8(text[:MostReason], "") + " ..."
	}
	return text
}
