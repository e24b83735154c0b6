package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Place has the directory of a lab command, its programs, and its output.
type Place struct {
	Dir  string // everything of the command; an absolute path
	Data string // the server's data directory; "": data below dir
	Bin  string // directory of pando and pando-init
	Out  io.Writer
	Err  io.Writer
}

// Locate makes the directory absolute and finds the programs in this program's directory. It refuses leftover arguments
// (rest).
func (p *Place) Locate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown argument %q", rest[0])
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.Bin = filepath.Dir(self)
	p.Dir, err = filepath.Abs(p.Dir)
	return err
}

// Say prints a line.
func (p *Place) Say(format string, args ...any) { fmt.Fprintf(p.Out, format+"\n", args...) }

// DataDir returns the server's data directory.
func (p *Place) DataDir() string { return cmp.Or(p.Data, filepath.Join(p.Dir, "data")) }

// Pando returns a command of `pando` for the server of this directory.
func (p *Place) Pando(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(p.Bin, "pando"), append([]string{"--data", p.DataDir()}, args...)...)
	// SIGINT lets a live table restore the terminal and a build remove its files.
	c.Cancel = func() error { return c.Process.Signal(unix.SIGINT) }
	c.WaitDelay = 20 * time.Second
	return c
}

// LeftError means that something could not be cleaned up.
type LeftError struct{ Err error }

func (e *LeftError) Error() string { return "not cleaned up: " + e.Err.Error() }

// LeftOver marks an error of cleaning up; nil stays nil.
func LeftOver(err error) error {
	if err == nil {
		return nil
	}
	return &LeftError{err}
}

// ReleaseOf returns the release of the programs in a directory, as they report it.
func ReleaseOf(ctx context.Context, dir string) (string, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "pando"), "version", "--json").Output()
	var v struct {
		Release string `json:"release"`
	}
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil {
		return "", fmt.Errorf("pando version in %s: %w", dir, err)
	}
	return v.Release, nil
}
