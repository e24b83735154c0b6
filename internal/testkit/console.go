package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"
)

// Console is the serial console of a machine: a file that QEMU appends to.
type Console struct {
	Path string
}

// escapes matches the control sequences by which firmware and kernels move a terminal's cursor and colour text.
var escapes = regexp.MustCompile("\x1b\\[[0-9;?=]*[A-Za-z]|\x1b[()][0-9A-B]|\x1bc")

// Text returns what was written so far, without terminal control sequences.
func (c Console) Text() (string, error) {
	b, err := os.ReadFile(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read console: %w", err)
	}
	b = escapes.ReplaceAll(b, nil)
	return string(bytes.ReplaceAll(b, []byte("\r"), nil)), nil
}

// Tail returns the last n lines, for messages about a failure.
func (c Console) Tail(n int) string {
	text, err := c.Text()
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// consolePoll is the interval for reading the file. QEMU signals no event for a new line.
const consolePoll = 100 * time.Millisecond

// Wait returns the first line that matches pattern, as soon as it is written. If ctx ends first, the error has the last
// lines of the console.
func (c Console) Wait(ctx context.Context, pattern string) (string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", fmt.Errorf("wait for console line: %w", err)
	}
	tick := time.NewTicker(consolePoll)
	defer tick.Stop()
	for {
		text, err := c.Text()
		if err != nil {
			return "", err
		}
		if line, ok := find(text, re); ok {
			return line, nil
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("console %s never had a line like %q: %w; it ends with:\n%s",
				c.Path, pattern, context.Cause(ctx), c.Tail(25))
		case <-tick.C:
		}
	}
}

func find(text string, re *regexp.Regexp) (string, bool) {
	for line := range strings.Lines(text) {
		if re.MatchString(line) {
			return strings.TrimRight(line, "\n"), true
		}
	}
	return "", false
}
