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

// rsync copies a tree with all that a file has. It is the program: it speaks to that of the other machine, and goes on
// where an interrupted copy was.
type rsync struct {
	from   string   // "" for this machine, "root@pilot"
	shell  []string // that leads there
	root   string   // directory of the tree, "/" for a whole machine
	parts  []string // directories below it that are file systems of their own and belong to the tree: "/boot"
	single bool     // other file systems are left alone
	tar    bool     // the other machine has no rsync, but tar
	choice Choice
	whole  bool // nothing is left out, whatever choice says
}

// CopyDirectory copies a directory of this machine into a place, with all that an image takes of its files.
func CopyDirectory(ctx context.Context, dir string, p Place, progress func(Progress)) error {
	_, err := rsync{root: dir, whole: true}.run(ctx, p, progress)
	return err
}

// vanished is rsync's status for files that went while it copied: a running machine does that.
const vanished = 24

// run copies into a place and returns notes of what was left out.
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

// args is the command line. Files appear under their names when they are whole; the rest of a long one is kept.
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
		args = append(args, "--modify-window=-1") // a directory of the same second gets its fraction, too
	} else {
		for _, rule := range r.choice.rules() {
			args = append(args, "--filter="+rule)
		}
	}
	// As systree.ForeignXattr has it; ACLs are not among the attributes here.
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

// rsyncTalk is what rsync says while it works.
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
	_, _ = io.Copy(io.Discard, r) // after a line without an end, too, rsync must be able to speak
}

// hide counts what a pattern keeps away. rsync does not say whose an attribute is.
func (t *rsyncTalk) hide(kind, name, pattern string) {
	switch {
	case kind != "xattr":
		t.hidden[pattern]++
	case systree.ForeignXattr(name):
		t.tally.dropped.add(name)
	}
}

// linesAndReturns splits at line feeds and at carriage returns, with which a figure is overwritten by the next.
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

// fullDisk makes an error of a program into ENOSPC if that is what the program meant.
func fullDisk(err error) error {
	if strings.Contains(err.Error(), "No space left on device") {
		return fmt.Errorf("%w: %w", syscall.ENOSPC, err)
	}
	return err
}
