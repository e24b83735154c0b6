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

// maxOutput limits how much of a program's output is kept, in bytes.
const maxOutput = 4 << 10

// command runs a program. The environment tells it the action. For status it prints on or off as its last line. An exit
// status other than 0 is a failure.
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
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes are killed too
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

// programOutput keeps the end of a program's output.
type programOutput struct{ bytes.Buffer }

// Write accepts all of p.
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
