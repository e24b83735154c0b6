package zstdcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"syscall"

	"pando/internal/command"
)

// strongest is zstd's level for data that is compressed once and sent to every node. Go's package ends at level 11.
const strongest = 19

// ErrMissing means that the program is not installed. Callers use Go's package then.
var ErrMissing = errors.New("zstd is not installed")

// Program is the path of the program zstd, or "" if it is not installed. Its output depends on its release, so it
// must not compress bytes that a version's digest covers.
type Program string

// Find looks for the program in PATH.
func Find() Program {
	path, err := exec.LookPath("zstd")
	if err != nil {
		return ""
	}
	return Program(path)
}

// Compress compresses raw at level 19, at the priority nice (0 is usual, 19 the lowest). The program gets the size in
// advance, so that the frame is a single segment and needs no window.
func (p Program) Compress(ctx context.Context, raw []byte, nice int, flags ...string) ([]byte, error) {
	if p == "" {
		return nil, ErrMissing
	}
	args := append(
		[]string{
			"-q",
			"-c",
			"-" + strconv.Itoa(strongest),
			"--single-thread",
			"--stream-size=" + strconv.Itoa(len(raw)),
		},
		flags...)
	cmd := exec.CommandContext(ctx, string(p), args...)
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(raw), &out, &problem
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p, err)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, nice) // not essential
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", p, command.Ended(ctx, err), bytes.TrimSpace(problem.Bytes()))
	}
	return out.Bytes(), nil
}
