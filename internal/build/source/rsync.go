package source

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pando/internal/command"
	"pando/internal/systree"
)

// rsync copies a tree with all attributes of its files by the program rsync, which talks to the rsync of the other
// machine and continues after an interruption.
type rsync struct {
	from   string   // "root@pilot"; "" for this machine
	shell  []string // command that connects to the machine
	root   string   // directory of the tree, "/" for a whole machine
	parts  []string // directories below root that are separate file systems and belong to the tree: "/boot"
	single bool     // do not copy other file systems
	tar    bool     // the other machine has tar but no rsync
	choice Choice
	whole  bool // leave nothing out, whatever choice says
}

// CopyDirectory copies a directory of this machine into a place, with all attributes that an image stores.
func CopyDirectory(ctx context.Context, dir string, p Place, progress func(Progress)) error {
	_, err := rsync{root: dir, whole: true}.run(ctx, p, progress)
	return err
}

// vanished is rsync's exit status for files that vanished during the copy, as on a running machine.
const vanished = 24

// run copies into a place and returns notes about what was left out.
func (r rsync) run(ctx context.Context, p Place, progress func(Progress)) ([]string, error) {
	path, err := exec.LookPath("rsync")
	if err != nil {
		return nil, errors.New("rsync is not installed: install it (Debian, Ubuntu, Fedora: package rsync)")
	}
	cmd := exec.CommandContext(ctx, path, r.args(p)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdin = os.Stdin // for ssh, which may ask for a password
	talk := &rsyncTalk{progress: progress, hidden: map[string]int{}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var problem tail
	cmd.Stderr = &problem
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	talk.read(out)
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == vanished, err == nil:
		return append(notes(talk.hidden), talk.tally.notes()...), nil
	}
	return nil, roomHint(fullDisk(fmt.Errorf("rsync: %w: %s", command.Ended(ctx, err), problem.text())), p.Root)
}

// args returns the command line. A file gets its name when it is complete; the part of a long file is kept.
func (r rsync) args(p Place) []string {
	args := []string{
		"-aHAXSR",
		"--numeric-ids",
		"--no-inc-recursive",
		"--partial-dir=" + p.Keep + "/partial",
		"--temp-dir=" + p.Keep,
		"--info=progress2,name0,flist0",
		"--debug=FILTER",
		"--outbuf=L",
	}
	if r.single {
		args = append(args, "--one-file-system")
	}
	if r.from != "" {
		args = append(args, "--rsh="+strings.Join(r.shell, " "), "--compress", "--remote-option=--debug=FILTER")
	}
	if r.whole {
		args = append(args, "--modify-window=-1") // compare the nanoseconds of times, too
	} else {
		for _, rule := range r.choice.rules() {
			args = append(args, "--filter="+rule)
		}
	}
	// The same attributes as in systree.ForeignXattr; ACLs are not among the attributes here.
	for _, begin := range systree.ForeignTrusted() {
		args = append(args, "--filter=-x trusted."+begin+"*")
	}
	for _, rule := range []string{"-x user.overlay.*", "-x security.overlay.*", "+x user.*", "+x security.*",
		"+x trusted.*", "-x *"} {
		args = append(args, "--filter="+rule)
	}
	root := strings.TrimRight(r.root, "/")
	for _, part := range append([]string{"/"}, r.parts...) {
		from := root + "/." + strings.TrimRight(part, "/") + "/"
		if r.from != "" {
			from = r.from + ":" + from
		}
		args = append(args, from)
	}
	return append(args, p.Root+"/")
}

// rsyncTalk parses the output of rsync.
type rsyncTalk struct {
	progress func(Progress)
	hidden   map[string]int // by pattern
	tally    tally
}

var (
	progressLine = regexp.MustCompile(`^\s*([0-9,]+)\s+([0-9]+)%`)
	hidingLine   = regexp.MustCompile(`hiding (file|directory|xattr) (.*) because of pattern (\S+)`)
)

func (t *rsyncTalk) read(r io.Reader) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	in.Split(linesAndReturns)
	for in.Scan() {
		if m := hidingLine.FindStringSubmatch(in.Text()); m != nil {
			t.hide(m[1], m[2], m[3])
			continue
		}
		m := progressLine.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		done, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		percent, err2 := strconv.ParseInt(m[2], 10, 64)
		if err != nil || err2 != nil {
			continue
		}
		s := Progress{Done: done}
		if percent > 0 {
			s.Total = max(done, done/percent*100)
		}
		t.progress(s)
	}
	_, _ = io.Copy(io.Discard, r) // rsync must not block, even if a line was too long for the scanner
}

// hide counts a file that a pattern leaves out. For attributes rsync does not name the file.
func (t *rsyncTalk) hide(kind, name, pattern string) {
	switch {
	case kind != "xattr":
		t.hidden[pattern]++
	case systree.ForeignXattr(name):
		t.tally.dropped.add(name)
	}
}

// linesAndReturns splits at line feeds and at carriage returns, by which rsync overwrites a progress figure.
func linesAndReturns(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

const tailSize = 2000 // bytes

// Write collects the output; it never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-tailSize):]
	return len(b), nil
}

func (t *tail) text() string { return strings.TrimSpace(string(t.b)) }

// fullDisk adds ENOSPC to the error of a program that reported a full disk.
func fullDisk(err error) error {
	if strings.Contains(err.Error(), "No space left on device") {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
