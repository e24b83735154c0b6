package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"pando/internal/build"
)

// agentName is the file name of the node's program.
const agentName = "pando-init"

// agentDir is where packages put it.
const agentDir = "/usr/lib/pando"

// agent is the agent cpio. Compressing it takes some seconds, so it begins when the server starts and who
// needs it waits.
type agent struct {
	path string
	once sync.Once
	done chan struct{}
	cpio []byte
	err  error
}

// findAgent looks for the node's program. A path that was given must exist; one that was not is looked for.
func findAgent(path string) (*agent, error) {
	a := &agent{path: path, done: make(chan struct{})}
	if path != "" {
		_, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("node's program: %w", err)
		}
		return a, nil
	}
	candidates := []string{filepath.Join(agentDir, agentName)}
	if exe, err := os.Executable(); err == nil {
		candidates = append([]string{filepath.Join(filepath.Dir(exe), agentName)}, candidates...)
	}
	for _, p := range candidates {
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			a.path = p
			return a, nil
		}
	}
	close(a.done)
	a.err = &bootError{fmt.Errorf("node's program %s is neither beside pando nor in %s: %w", agentName, agentDir, fs.ErrNotExist),
		"install it there, or name it with --agent"}
	return a, nil
}

// prepare makes the cpio of a program that was found. It is called once or more, and does it once.
func (a *agent) prepare(ctx context.Context) error {
	a.once.Do(func() {
		defer close(a.done)
		var binary []byte
		if binary, a.err = os.ReadFile(a.path); a.err == nil {
			a.cpio, a.err = build.AgentCPIO(ctx, binary)
		}
	})
	<-a.done
	return a.err
}

// get waits for the cpio. It is shared: nobody changes it.
func (a *agent) get(ctx context.Context) ([]byte, error) {
	select {
	case <-a.done:
		return a.cpio, a.err
	case <-ctx.Done():
		return nil, errors.Join(errors.New("wait for the agent cpio"), ctx.Err())
	}
}
