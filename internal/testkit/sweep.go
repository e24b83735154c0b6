package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Sweep removes what killed processes have left: namespaces of NewNet with this prefix whose owner has ended, and the
// programs in them. Tests call it before they start, because the go command cleans up nothing after a time-out.
func Sweep(prefix string) error {
	names, err := os.ReadDir("/run/netns")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for network namespaces that were left: %w", err)
	}
	for _, n := range names {
		if orphan(n.Name(), prefix) {
			err = errors.Join(err, sweepNet(n.Name()))
		}
	}
	return err
}

// orphan reports whether the owner of the namespace "prefix-PID-COUNT" has ended.
func orphan(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix+"-")
	pid, count, two := strings.Cut(rest, "-")
	id, err := strconv.Atoi(pid)
	if _, bad := strconv.Atoi(count); !ok || !two || err != nil || bad != nil || id <= 1 {
		return false
	}
	return errors.Is(unix.Kill(id, 0), unix.ESRCH)
}

func sweepNet(name string) error {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return fmt.Errorf("programs in network namespace %s: %w", name, err)
	}
	for _, word := range bytes.Fields(out) {
		if pid, err := strconv.Atoi(string(word)); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	}
	return (&Net{Name: name}).Close()
}
