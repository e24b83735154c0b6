package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	partBytes = 16 << 20 // about the size at which a new file is begun, so that older files can be deleted
	writeTime = 2 * time.Minute
	writeNice = 10 // so that boots come first
)

// written matches the output in which systemd-journal-remote reports how much it wrote. Its exit status does not tell.
var written = regexp.MustCompile(`writing (\d+) entries`)

// write makes systemd-journal-remote add the entries of a file to the journal of a boot.
func (d *Dir) write(ctx context.Context, node, id string, from *os.File, count int) error {
	leave, err := acquire(ctx, d.slots)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	dir := d.dir(node, id)
	name, err := partName(dir)
	if err != nil {
		return fmt.Errorf("journal of boot %s: %w", id, err)
	}
	// The program runs to its end even if the node is gone: if it was killed, it would leave a journal file that is not
	// closed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	out, err := d.program(ctx, dir, from, d.remote, "--split-mode=none", "--output="+inDir+"/"+name, "-")
	err = checkWritten(out, err, count)
	if e := shrink(filepath.Join(dir, name)); e != nil && err == nil {
		d.Log.Warn("unused space of a journal cannot be freed", "node", node, "boot", id, "err", e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, e := d.weigh(node, id); e == nil && d.have[node][id] != nil {
		d.have[node][id].bytes, d.have[node][id].newest = b.bytes, b.newest
	}
	if err != nil {
		return fmt.Errorf("journal of boot %s of node %s: %w", id, node, err)
	}
	return nil
}

// checkWritten returns an error unless all entries were written.
func checkWritten(out []byte, err error, count int) error {
	text := strings.TrimSpace(string(out))
	if err != nil {
		return fmt.Errorf("%s: %w: %s", remoteName, err, text)
	}
	if m := written.FindStringSubmatch(text); m != nil {
		if n, _ := strconv.Atoi(m[1]); n != count {
			return fmt.Errorf("%s wrote %d of %d entries: %s", remoteName, n, count, text)
		}
	}
	return nil
}

// inDir is the path by which systemd's programs reach the directory that is open as descriptor 3. They need no access
// to the directories above it.
const inDir = "/proc/self/fd/3"

// program runs one of systemd's programs on a directory, and returns its output.
func (d *Dir) program(ctx context.Context, dir string, stdin *os.File, args ...string) ([]byte, error) {
	cmd, done, err := d.command(ctx, dir, args...)
	if err != nil {
		return nil, err
	}
	defer done()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &limited{&out, 16 << 10}, &limited{&out, 16 << 10}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, writeNice) // an error does not matter
	err = cmd.Wait()
	return out.Bytes(), err
}

// command prepares one of systemd's programs. done closes the open directory.
func (d *Dir) command(ctx context.Context, dir string, args ...string) (cmd *exec.Cmd, done func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.ExtraFiles = []*os.File{f} // descriptor 3
	cmd.Env = []string{
		"LC_ALL=C.UTF-8",
		"TZ=UTC",
		"SYSTEMD_LOG_TARGET=console",
		"SYSTEMD_LOG_LEVEL=info",
		"SYSTEMD_PAGER=",
		"PATH=" + os.Getenv("PATH"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.as}
	cmd.WaitDelay = 5 * time.Second
	return cmd, func() { _ = f.Close() }, nil
}

// limited keeps the beginning of a program's output.
type limited struct {
	to   *bytes.Buffer
	most int
}

// Write keeps as much of b as fits.
func (l *limited) Write(b []byte) (int, error) {
	l.to.Write(b[:min(len(b), max(l.most-l.to.Len(), 0))])
	return len(b), nil
}

// partName returns the file to write to: the last one, or a new one if that is large.
func partName(dir string) (string, error) {
	files, err := parts(dir)
	if err != nil {
		return "", err
	}
	number := 0
	for _, f := range files {
		if n, err := strconv.Atoi(f.name[:min(len(f.name), 6)]); err == nil {
			number = max(number, n)
		}
	}
	name := func(n int) string { return fmt.Sprintf("%06d.journal", n) }
	i := slices.IndexFunc(files, func(p part) bool { return p.name == name(number) })
	if number == 0 || i >= 0 && files[i].bytes >= partBytes {
		number++
	}
	return name(number), nil
}

// full adds ErrFull to errors of a full disk.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return errors.Join(ErrFull, err)
	}
	return err
}
