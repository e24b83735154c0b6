package boot

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// warmPart is the part of the memory that is filled with files of the next root before it is gone to.
const warmPart = 8

// warm mounts the next root by itself, and reads of it what programs that run now have mapped: most of them are started again in a moment, and
// nobody waits yet.
func (m *machine) warm() error {
	if err := m.mountLower(); err != nil {
		return err
	}
	m.lowered = true
	root, err := openRootDir(m.at.lower)
	if err != nil {
		return err
	}
	defer root.close()
	if err := knowsSoft(root); err != nil {
		return err
	}
	left := machineMemory() / warmPart
	for _, name := range mappedFiles("/proc") {
		f, err := root.open(name, unix.O_RDONLY, 0)
		if err != nil {
			continue // the next root has none of this name
		}
		n, _ := io.CopyN(io.Discard, f, left) // what cannot be read now is read later
		f.Close()
		if left -= n; left <= 0 {
			break
		}
	}
	return nil
}

// mappedFiles are the files that processes have mapped, each once, in the order of the processes' numbers' text.
func mappedFiles(proc string) []string {
	maps, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "maps"))
	known := map[string]bool{}
	var out []string
	for _, file := range maps {
		data, _ := os.ReadFile(file) // it may have ended
		for line := range strings.Lines(string(data)) {
			i := strings.IndexByte(line, '/')
			if i < 0 {
				continue
			}
			name := strings.TrimSuffix(line[i:], "\n")
			if strings.HasPrefix(name, "/usr/") && !known[name] {
				known[name] = true
				out = append(out, name)
			}
		}
	}
	return out
}
