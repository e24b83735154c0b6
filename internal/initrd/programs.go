package initrd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"pando/internal/build/initramfs"
	"pando/internal/hint"
	"pando/internal/store"
)

// agentName is the file name of the node's program.
const agentName = "pando-init"

// agentDir is where packages install it.
const agentDir = "/usr/lib/pando"

// program is the agent cpio of one architecture. Compressing takes some seconds, so it begins when the server starts,
// and callers wait for it. The result is kept in a file for the next start.
type program struct {
	path string
	kept string // directory of the kept file
	file string // name of the kept file, see keptName
	once sync.Once
	done chan struct{}
	cpio []byte
	err  error
}

// Programs are the node's programs, by architecture.
type Programs map[string]*program

// FindPrograms finds the node's programs: pando-init for nodes of this machine's architecture, and others with their
// architecture after the name. A given path must exist. Its directory is searched as well.
func FindPrograms(path, kept string) (Programs, error) {
	found := Programs{}
	dirs := programDirs(os.Executable())
	if path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("node's program: %w", err)
		}
		found.add(path, kept)
		dirs = append([]string{filepath.Dir(path)}, dirs...)
	}
	for _, dir := range dirs {
		for _, name := range []string{agentName, agentName + "-amd64", agentName + "-arm64"} {
			p := filepath.Join(dir, name)
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
				found.add(p, kept)
			}
		}
	}
	return found, nil
}

// programDirs returns where the node's programs are looked for: beside pando, in lib/pando beside its bin as `make
// install` puts them, and where packages put them.
func programDirs(exe string, err error) []string {
	if err != nil {
		return []string{agentDir}
	}
	bin := filepath.Dir(exe)
	return []string{bin, filepath.Join(filepath.Dir(bin), "lib/pando"), agentDir}
}

// add adds a program, unless there is one for its architecture.
func (s Programs) add(path, kept string) {
	architecture := programArchitecture(path)
	if s[architecture] == nil {
		s[architecture] = &program{path: path, kept: kept, file: keptName(architecture), done: make(chan struct{})}
	}
}

// programArchitecture returns the architecture of a program. An unreadable one counts as this machine's: packing it
// reports the error.
func programArchitecture(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	switch f.Machine {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return runtime.GOARCH
}

// Has returns what is missing for nodes of an architecture to boot, nil if nothing is.
func (s Programs) Has(architecture string) error {
	if s[architecture] != nil {
		return nil
	}
	name, advice := agentName, "install it there, or name it with --agent"
	if architecture != runtime.GOARCH {
		name, advice = agentName+"-"+architecture, "`make build` makes it; install it there"
	}
	return hint.With(
		fmt.Errorf("node's program %s is neither beside pando nor in %s: %w", name, agentDir, fs.ErrNotExist),
		advice,
	)
}

// Get waits for the cpio of an architecture. The bytes are shared; callers must not change them.
func (s Programs) Get(ctx context.Context, architecture string) ([]byte, error) {
	if err := s.Has(architecture); err != nil {
		return nil, err
	}
	a := s[architecture]
	if architecture != runtime.GOARCH { // only this machine's architecture is prepared at the server's start
		go func() { _ = a.Prepare(context.WithoutCancel(ctx)) }() // Get returns the error
	}
	return a.Get(ctx)
}

// Prepare makes the cpio of a program. Further calls wait for the first one.
func (a *program) Prepare(ctx context.Context) error {
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

// keptName returns the name of the kept cpio; %x is a digest of the program and of how it is packed.
func keptName(architecture string) string {
	if architecture == runtime.GOARCH {
		return "agent-%x.cpio"
	}
	return architecture + "-agent-%x.cpio"
}

// make returns the cpio of a program: the kept one if it is undamaged, else a new one. If it cannot be kept, it is made
// again at the next start, which costs only time.
func (a *program) make(ctx context.Context, binary []byte) ([]byte, error) {
	made := sha256.Sum256(append([]byte(initramfs.AgentPacking+"\x00"), binary...))
	file := filepath.Join(a.kept, fmt.Sprintf(a.file, made[:8]))
	if b, err := os.ReadFile(file); err == nil && len(b) > sha256.Size {
		if sum := sha256.Sum256(b[sha256.Size:]); bytes.Equal(sum[:], b[:sha256.Size]) {
			return b[sha256.Size:], nil
		}
	}
	cpio, err := initramfs.AgentCPIO(ctx, binary)
	if err != nil {
		return nil, err
	}
	old, _ := filepath.Glob(filepath.Join(a.kept, strings.Replace(a.file, "%x", "*", 1)))
	for _, f := range old {
		_ = os.Remove(f) // of another release
	}
	sum := sha256.Sum256(cpio)
	_ = store.WriteFile(file, append(sum[:], cpio...), 0o600)
	return cpio, nil
}

// Get waits for the cpio. The bytes are shared; callers must not change them.
func (a *program) Get(ctx context.Context) ([]byte, error) {
	select {
	case <-a.done:
		return a.cpio, a.err
	case <-ctx.Done():
		return nil, errors.Join(errors.New("wait for the agent cpio"), ctx.Err())
	}
}
