package initrd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/problem"
	"pando/internal/rootdir"
	"pando/internal/rundir"
)

// prepareSwitch returns the path of a root's init: wanted, or the usual ones if wanted is "". It does everything that
// can fail and be retried before execInit.
func prepareSwitch(dir, wanted string, s *Session, log *console) (init, text string, err error) {
	root, err := rootdir.Open(dir)
	if err != nil {
		return "", "", err
	}
	defer root.Close()
	if init, err = findInit(root, wanted); err != nil {
		return "", "", err
	}
	for _, d := range []string{"/dev", "/proc", "/sys", "/run"} {
		f, err := root.Mkdirs(d)
		if err != nil {
			return "", "", err
		}
		f.Close()
	}
	if len(s.Assignment.Extensions) == 0 { // extensions may contain files that need the update
		if _, err := markUpdated(root); err != nil {
			log.logf("switchroot: root cannot be marked as up to date, which makes the boot slower: %v", err)
		}
	}
	return init, "to " + init, nil
}

func findInit(root *rootdir.Dir, wanted string) (string, error) {
	candidates := []string{"/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd"}
	if wanted != "" {
		candidates = []string{wanted}
	}
	for _, c := range candidates {
		if root.Exists(c) {
			return c, nil
		}
	}
	return "", &problem.Problem{Err: errors.New("the image has no init"), Tried: strings.Join(candidates, ", "),
		Hint: "install systemd-sysv in the image and build it again"}
}

// execInit replaces this process by the image's init. It returns only on failure, and the boot cannot be retried
// then.
func (m *machine) execInit(init string) error {
	if err := rundir.WriteJSON(rundir.Dir, rundir.EventsName, 0o600, m.timeline.report.Take()); err != nil {
		m.timeline.console.logf("switchroot: %v", err)
	}
	m.rootDevice.device.Release()
	_ = os.WriteFile("/proc/sys/kernel/panic", []byte("0"), 0o644)
	root := m.rootMount.at.root
	for _, d := range []string{"/dev", "/proc", "/sys", "/run"} {
		if err := unix.Mount(d, root+d, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", d, err)
		}
	}
	removeInitramfs()
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("enter the new root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the new root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	consoleAsStdio()
	args := append([]string{init}, os.Args[1:]...)
	err := unix.Exec(init, args, os.Environ())
	return fmt.Errorf("start %s: %w", init, err)
}

// removeInitramfs deletes the initramfs's files to free their memory. It does not cross mount points.
func removeInitramfs() {
	var top unix.Stat_t
	if unix.Lstat("/", &top) != nil {
		return
	}
	removeBelow("/", top.Dev)
}

func removeBelow(dir string, dev uint64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // remaining files only cost memory
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		var st unix.Stat_t
		if unix.Lstat(p, &st) != nil || st.Dev != dev {
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			removeBelow(p, dev)
			_ = unix.Rmdir(p) // fails for mount points and their parents
			continue
		}
		_ = unix.Unlink(p)
	}
}

// consoleAsStdio gives the image's init the kernel's console as standard input and output.
func consoleAsStdio() {
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return
	}
	for n := range 3 {
		_ = unix.Dup2(fd, n)
	}
	if fd > 2 {
		unix.Close(fd)
	}
}
