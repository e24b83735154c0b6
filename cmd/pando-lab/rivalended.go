package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// programName is a program's for people: one that runs in a namespace is started by `ip netns exec NAME`.
func programName(c *exec.Cmd) string {
	args := c.Args
	if len(args) > 4 && args[0] == "ip" && args[1] == "netns" && args[2] == "exec" {
		args = args[4:]
	}
	return filepath.Base(args[0])
}

// ended says how a program ended that should not have, with the last that it said. Call it when the program is done.
func (p *program) ended() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	last := "which is empty"
	if line := lastLine(p.log); line != "" {
		last = "which ends with: " + line
	}
	return fmt.Errorf("%s ended at once (%s); its log is %s, %s", programName(p.cmd), how, p.log, last)
}

// lastLine of a file; "": it has none.
func lastLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	data = bytes.TrimSpace(data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}

// goneWithin is how soon a program has ended after its connections have.
const goneWithin = time.Second

// gone says so when a program has ended that something was asked of in vain, and else what was wrong with that.
func (p *program) gone(err error) error {
	select {
	case <-p.done:
		return fmt.Errorf("%w: %w", p.ended(), err)
	case <-time.After(goneWithin):
		return err
	}
}
