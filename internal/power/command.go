package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"pando/internal/command"
)

// maxOutput bounds what is kept of what a program prints.
const maxOutput = 4 << 10

// command runs a program. It is told what to do by its environment, and of status tells on or off as its last
// line. A failure is an exit status that is not 0.
func (s Switch) command(ctx context.Context, r Request) (State, error) {
	path, err := s.Find(r.To.Command)
	if err != nil {
		return Unknown, err
	}
	macs := make([]string, len(r.MACs))
	for i, m := range r.MACs {
		macs[i] = m.String()
	}
	c := exec.CommandContext(ctx, path)
	c.Dir = "/"
	c.Env = append(
		os.Environ(),
		"PANDO_NODE="+r.Node,
		"PANDO_ACTION="+string(r.Action),
		"PANDO_MACS="+strings.Join(macs, " "),
		"PANDO_PASSWORD="+r.Password,
		fmt.Sprintf("PANDO_FORCE=%t", r.Force),
		fmt.Sprintf("PANDO_NETWORK=%t", r.Network),
	)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it started ends with it
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	out := &programOutput{}
	c.Stdout, c.Stderr = out, out
	err = c.Run()
	last := out.last()
	if err != nil {
		return Unknown, errors.New(strings.TrimSuffix(
			r.To.Command+": "+command.Ended(ctx, err).Error()+": "+last, ": "))
	}
	if r.Action == Status && (State(last) == IsOn || State(last) == IsOff) {
		return State(last), nil
	}
	return Unknown, nil
}

// programOutput keeps the end of what a program prints.
type programOutput struct{ bytes.Buffer }

// Write takes all of p.
func (s *programOutput) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if s.Len() > 2*maxOutput {
		s.Next(s.Len() - maxOutput)
	}
	return n, err
}

func (s *programOutput) last() string {
	text := strings.TrimSpace(s.String())
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}
