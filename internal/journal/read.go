package journal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a query.
const (
	readTime = 30 * time.Second
	maxLine  = 4 << 20 // bytes of one entry as journalctl prints it
)

// Query selects lines of a journal. The zero value selects all.
type Query struct {
	Unit     string // a unit, or a pattern such as nfs-*; ".service" may be left out
	Grep     string // regular expression (PCRE) for the message; case counts only if it has capitals
	Priority string // this priority and more urgent ones: "err", "4"
	Since    time.Time
	Until    time.Time
	Last     int // how many of the newest lines; 0: all
}

// args returns the query as arguments of journalctl.
func (q Query) args() []string {
	args := []string{
		"--directory=" + inDir,
		"--output=json",
		"--no-pager",
		"--quiet",
		"--all",
		"--output-fields=" + strings.Join(shownFields, ","),
	}
	if q.Unit != "" {
		args = append(args, "--unit="+q.Unit)
	}
	if q.Grep != "" {
		args = append(args, "--grep="+q.Grep)
	}
	if q.Priority != "" {
		args = append(args, "--priority="+q.Priority)
	}
	for _, t := range []struct {
		flag string
		at   time.Time
	}{{"--since", q.Since}, {"--until", q.Until}} {
		if !t.at.IsZero() {
			args = append(args, fmt.Sprintf("%s=@%d.%06d", t.flag, t.at.Unix(), t.at.Nanosecond()/1000))
		}
	}
	if q.Last > 0 {
		args = append(args, "--lines="+strconv.Itoa(q.Last))
	}
	return args
}

// Lines returns lines of the journal of a boot, the oldest first.
func (d *Dir) Lines(ctx context.Context, node, id string, q Query) ([]Line, error) {
	leave, err := acquire(ctx, d.readers)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	out := []Line{}
	err = d.read(ctx, node, id, q.args(), func(l Line) error { out = append(out, l); return nil })
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// Follow calls fn for the selected lines and for later ones, until fn returns an error or ctx ends; the end of ctx is
// no error. It waits for a boot that has sent nothing yet.
func (d *Dir) Follow(ctx context.Context, node, id string, q Query, fn func(Line) error) error {
	select {
	case d.follows <- struct{}{}:
		defer func() { <-d.follows }()
	default:
		return fmt.Errorf("%d journals are followed: %w", mostFollows, ErrBusy)
	}
	args := append(q.args(), "--follow")
	if q.Last == 0 {
		args = append(args, "--no-tail")
	}
	for ctx.Err() == nil {
		err := d.read(ctx, node, id, args, fn)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, ErrNone) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
	return nil
}

// followPause is how often Follow checks for the first lines of a boot.
const followPause = time.Second

// Units returns the units that have lines in a journal.
func (d *Dir) Units(ctx context.Context, node, id string) ([]string, error) {
	leave, err := acquire(ctx, d.readers)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	var out []string
	err = d.lines(
		ctx,
		node,
		id,
		[]string{"--directory=" + inDir, "--quiet", "--field=_SYSTEMD_UNIT"},
		func(line []byte) error {
			out = append(out, clip(string(line), 256))
			return nil
		},
	)
	slices.Sort(out)
	return out, err
}

func (d *Dir) read(ctx context.Context, node, id string, args []string, fn func(Line) error) error {
	return d.lines(ctx, node, id, args, func(text []byte) error {
		l, err := parseLine(text)
		if err != nil {
			return fmt.Errorf("journal of boot %s: %w", id, err)
		}
		return fn(l)
	})
}

// lines runs journalctl and calls fn for every line that it prints.
func (d *Dir) lines(ctx context.Context, node, id string, args []string, fn func([]byte) error) error {
	dir := d.dir(node, id)
	if files, err := parts(dir); len(files) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return fmt.Errorf("boot %s of node %s: %w", id, node, ErrNone)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd, done, err := d.command(ctx, dir, append([]string{d.reader}, args...)...)
	if err != nil {
		return err
	}
	defer done()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var problem bytes.Buffer
	cmd.Stderr = &limited{&problem, 4 << 10}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	scanErr := scan(out, fn)
	if scanErr != nil {
		stop()
		_, _ = io.Copy(io.Discard, out) // until journalctl ends
	}
	if err := cmd.Wait(); err != nil && scanErr == nil && ctx.Err() == nil {
		// With --grep, journalctl fails without a message if nothing matches.
		if text := strings.TrimSpace(problem.String()); text != "" {
			return &QueryError{text}
		}
	}
	return scanErr
}

// QueryError is journalctl's error message about a query.
type QueryError struct{ Text string }

func (e *QueryError) Error() string { return "journalctl: " + e.Text }

func scan(r io.Reader, fn func([]byte) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	for s.Scan() {
		if err := fn(s.Bytes()); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
