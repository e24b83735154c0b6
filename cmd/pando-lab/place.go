package main

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

// place is where a command of the lab works, and where it prints.
type place struct {
	dir  string // everything of it, as an absolute path
	data string // the server's data directory; "": data below dir
	bin  string // pando and pando-init
	out  io.Writer
	err  io.Writer
}

// locate makes the directory absolute and finds the programs beside this one. rest is what was left of the
// arguments: nothing may be.
func (p *place) locate(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unknown argument %q", rest[0])
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.bin = filepath.Dir(self)
	p.dir, err = filepath.Abs(p.dir)
	return err
}

// say prints a line.
func (p *place) say(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// dataDir is the server's data directory.
func (p *place) dataDir() string { return cmp.Or(p.data, filepath.Join(p.dir, "data")) }

// pandoCommand is the operator's command on the server, as a person would give it.
func (p *place) pandoCommand(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(p.bin, "pando"), append([]string{"--data", p.dataDir()}, args...)...)
	// At Ctrl-C a live table puts the terminal in order and a build cleans up behind itself.
	c.Cancel = func() error { return c.Process.Signal(unix.SIGINT) }
	c.WaitDelay = 20 * time.Second
	return c
}

// leftError says that something could not be cleaned up.
type leftError struct{ err error }

func (e *leftError) Error() string { return "not cleaned up: " + e.err.Error() }

func leftOver(err error) error {
	if err == nil {
		return nil
	}
	return &leftError{err}
}

// releaseOf is what the programs in a directory say that they are.
func releaseOf(ctx context.Context, dir string) (string, error) {
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
