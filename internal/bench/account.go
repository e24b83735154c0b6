package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Account measures the processor time of this program and everything that it starts, with a control group. It does not
// include the kernel's work for packets that no process waits for.
type Account struct {
	group  string // directory of the group
	parent string // the process's previous group
	file   string // name of the file with the time, in group
}

// accountName is the prefix of the groups' names.
const accountName = "pando-lab-"

// OpenAccount moves this process into a new control group, of version 1 or 2. The caller must call Close.
func OpenAccount(top string) (*Account, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	at := top // version 2
	a := &Account{file: "cpu.stat"}
	if _, err := os.Stat(filepath.Join(top, "cgroup.procs")); err != nil {
		at, a.file = filepath.Join(top, "cpuacct"), "cpuacct.usage"
	}
	a.parent = filepath.Join(at, groupOf(string(own), a.file == "cpuacct.usage"))
	for _, left := range leftAccounts(at) {
		_ = os.Remove(left) // left by a killed lab; removing a group in use fails
	}
	a.group = filepath.Join(at, accountName+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(a.group, 0o755); err != nil {
		return nil, fmt.Errorf("control group for counting processor time: %w", err)
	}
	if err := enterGroup(a.group); err != nil {
		return nil, errors.Join(err, os.Remove(a.group))
	}
	return a, nil
}

func leftAccounts(at string) []string {
	left, _ := filepath.Glob(filepath.Join(at, accountName+"*")) // the pattern is good
	return left
}

// groupOf finds the group of a process in the text of /proc/PID/cgroup. first: version 1.
func groupOf(lines string, first bool) string {
	for line := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) < 3 {
			continue
		}
		if first && strings.Contains(","+f[1]+",", ",cpuacct,") || !first && f[0] == "0" {
			return f[2]
		}
	}
	return "/"
}

func enterGroup(dir string) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644)
}

// Used returns the processor time so far, in seconds.
func (a *Account) Used() (float64, error) {
	data, err := os.ReadFile(filepath.Join(a.group, a.file))
	if err != nil {
		return 0, err
	}
	return parseUsed(data)
}

// parseUsed parses cpuacct.usage, which has nanoseconds, or cpu.stat, which has a line with microseconds.
func parseUsed(data []byte) (float64, error) {
	unit := 1e-9
	if rest, ok := bytes.CutPrefix(data, []byte("usage_usec ")); ok {
		data, _, _ = bytes.Cut(rest, []byte("\n"))
		unit = 1e-6
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("processor time of a control group: %w", err)
	}
	return float64(n) * unit, nil
}

// Close moves this process back to its previous group. It does not remove a group in which a process still runs.
func (a *Account) Close() error {
	if err := enterGroup(a.parent); err != nil {
		return err
	}
	_ = os.Remove(a.group)
	return nil
}
