package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"pando/internal/build"
	"pando/internal/store"
)

// agentName is the file name of the node's program.
const agentName = "pando-init"

// agentDir is where packages put it.
const agentDir = "/usr/lib/pando"

// agent is the agent cpio. Compressing it takes some seconds, so it begins when the server starts and who
// needs it waits; what was made is kept for the next start.
type agent struct {
	path string
	kept string // directory where it is kept
	once sync.Once
	done chan struct{}
	cpio []byte
	err  error
}

// findAgent looks for the node's program. A path that was given must exist; one that was not is looked for.
func findAgent(path, kept string) (*agent, error) {
	a := &agent{path: path, kept: kept, done: make(chan struct{})}
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
			a.cpio, a.err = a.make(ctx, binary)
		}
	})
	<-a.done
	return a.err
}

// agentFile is the name of a kept cpio, by a digest of the program and of how it is packed.
const agentFile = "agent-%x.cpio"

// make returns the cpio of a program: the kept one when it is whole, else a new one. One that cannot be kept is made again
// at the next start, which is all that it costs.
func (a *agent) make(ctx context.Context, binary []byte) ([]byte, error) {
	made := sha256.Sum256(append([]byte(build.AgentPacking+"\x00"), binary...))
	file := filepath.Join(a.kept, fmt.Sprintf(agentFile, made[:8]))
	if b, err := os.ReadFile(file); err == nil && len(b) > sha256.Size {
		if sum := sha256.Sum256(b[sha256.Size:]); bytes.Equal(sum[:], b[:sha256.Size]) {
			return b[sha256.Size:], nil
		}
	}
	cpio, err := build.AgentCPIO(ctx, binary)
	if err != nil {
		return nil, err
	}
	old, _ := filepath.Glob(filepath.Join(a.kept, strings.Replace(agentFile, "%x", "*", 1)))
	for _, f := range old {
		_ = os.Remove(f) // it is of another release
	}
	sum := sha256.Sum256(cpio)
	_ = store.WriteFile(file, append(sum[:], cpio...), 0o600)
	return cpio, nil
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
