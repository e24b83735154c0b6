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

// agentDir is where packages put it.
const agentDir = "/usr/lib/pando"

// program is the agent cpio. Compressing it takes some seconds, so it begins when the server starts and who
// needs it waits; what was made is kept for the next start.
type program struct {
	path string
	kept string // directory where it is kept
	file string // name there, see keptName
	once sync.Once
	done chan struct{}
	cpio []byte
	err  error
}

// Programs are the node's programs, by architecture.
type Programs map[string]*program

// FindPrograms looks for the node's programs: that for nodes as this machine is pando-init, those for others have their
// architecture behind the name. A path that was given must exist; others are looked for beside it, too.
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

// programDirs are where the node's programs are looked for: beside pando, in lib/pando beside its bin as `make install`
// puts them, and where packages put them.
func programDirs(exe string, err error) []string {
	if err != nil {
		return []string{agentDir}
	}
	bin := filepath.Dir(exe)
	return []string{bin, filepath.Join(filepath.Dir(bin), "lib/pando"), agentDir}
}

// add takes a program, unless there is one for its architecture.
func (s Programs) add(path, kept string) {
	architecture := programArchitecture(path)
	if s[architecture] == nil {
		s[architecture] = &program{path: path, kept: kept, file: keptName(architecture), done: make(chan struct{})}
	}
}

// programArchitecture reads for which processors a program is. What does not say so is taken for this machine's: it
// is looked at again when it is packed.
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

// Has reports what is missing for nodes of an architecture to boot, nil if nothing is.
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

// Get waits for the cpio of an architecture. It is shared: nobody changes it.
func (s Programs) Get(ctx context.Context, architecture string) ([]byte, error) {
	if err := s.Has(architecture); err != nil {
		return nil, err
	}
	a := s[architecture]
	if architecture != runtime.GOARCH { // nobody has asked for it when the server started
		go func() { _ = a.Prepare(context.WithoutCancel(ctx)) }() // get tells the error
	}
	return a.Get(ctx)
}

// Prepare makes the cpio of a program that was found. It is called once or more, and does it once.
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

// keptName is the name of a kept cpio, by a digest of the program and of how it is packed.
func keptName(architecture string) string {
	if architecture == runtime.GOARCH {
		return "agent-%x.cpio"
	}
	return architecture + "-agent-%x.cpio"
}

// make returns the cpio of a program: the kept one when it is whole, else a new one. One that cannot be kept is
// made again at the next start, which is all that it costs.
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
		_ = os.Remove(f) // it is of another release
	}
	sum := sha256.Sum256(cpio)
	_ = store.WriteFile(file, append(sum[:], cpio...), 0o600)
	return cpio, nil
}

// Get waits for the cpio. It is shared: nobody changes it.
func (a *program) Get(ctx context.Context) ([]byte, error) {
	select {
	case <-a.done:
		return a.cpio, a.err
	case <-ctx.Done():
		return nil, errors.Join(errors.New("wait for the agent cpio"), ctx.Err())
	}
}
