package initrd

import (
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pando/internal/hardware"
	"pando/internal/rootdir"
)

// Up to 1/warmPart of the memory is filled with files of the next root before the soft reboot.
const warmPart = 8

// warmTrees are directories that systemd's start reads almost completely. warmPrograms are programs that it runs
// briefly. warmNot are parts of warmTrees that it does not read.
var (
	warmTrees = []string{
		"/usr/lib/systemd",
		"/usr/lib/udev",
		"/usr/lib/tmpfiles.d",
		"/usr/lib/sysusers.d",
		"/usr/lib/modprobe.d",
		"/usr/share/dbus-1",
		"/etc",
	}
	warmPrograms = []string{
		"/usr/bin/systemd-tmpfiles",
		"/usr/bin/systemd-sysusers",
		"/usr/bin/udevadm",
		"/usr/bin/kmod",
		"/usr/bin/mount",
		"/usr/bin/sh",
	}
	warmNot = []string{"/usr/lib/systemd/boot", "/usr/lib/systemd/catalog", "/usr/lib/udev/hwdb.d"}
)

// warm mounts the next root and reads the files that the next boot starts with: those that running programs have
// mapped now, and those that systemd reads. The soft reboot then does not wait for them.
func (w *rootMount) warm(kind string) error {
	if err := w.mountLower(kind); err != nil {
		return err
	}
	w.lowered = true
	root, err := rootdir.Open(w.at.lower)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := knowsSoft(root); err != nil {
		return err
	}
	left := hardware.Memory() / warmPart
	for _, name := range slices.Concat(mappedFiles("/proc"), warmPrograms, warmTrees) {
		warmFile(root, name, &left)
	}
	return nil
}

// warmFile reads a file or a directory tree while left is positive. It ignores files that are missing or unreadable.
func warmFile(r *rootdir.Dir, name string, left *int64) {
	if *left <= 0 || slices.Contains(warmNot, name) {
		return
	}
	f, err := r.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.Mode().IsRegular():
		n, _ := io.CopyN(io.Discard, f, *left)
		*left -= n
	case info.IsDir():
		below, _ := f.ReadDir(-1)
		for _, e := range below {
			if e.IsDir() || e.Type().IsRegular() { // links lead to files with another name, or out of the tree
				warmFile(r, path.Join(name, e.Name()), left)
			}
		}
	}
}

// mappedFiles lists the files below /usr that processes have mapped, without duplicates.
func mappedFiles(proc string) []string {
	maps, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "maps"))
	known := map[string]bool{}
	var out []string
	for _, file := range maps {
		data, _ := os.ReadFile(file) // the process may have ended
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
