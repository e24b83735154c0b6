package loginfiles

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/backoff"
	"pando/internal/blockapi"
)

// Reading starts at a random time within beginWithin, because nodes boot together. It is slow, because reads of other
// programs come first.
const (
	beginWithin = 2 * time.Minute
	lookEvery   = time.Minute
	perSecond   = 2 << 20 // bytes
)

// block is the root's block daemon.
type block interface {
	Status(ctx context.Context, since int64) (blockapi.Status, error)
	Hold(ctx context.Context, on bool) (blockapi.Held, error)
}

// Run makes the block daemon of /dev/nbdN, where N is device, hold this system's login files until ctx ends. It repeats
// that for each new daemon. It may take until a server answers.
func Run(ctx context.Context, b block, device int, log io.Writer) {
	run(ctx, b, log, func(k *reader) {
		if err := forgetMetadata(device); err != nil {
			fmt.Fprintln(log, "directories and inodes of the root may not be held:", err)
		}
		k.all()
	})
}

// forgetMetadata makes the kernel read directories and inodes of the root again, so that the block daemon gets their
// objects, too. Files are read past the page cache; for metadata there is no such way.
func forgetMetadata(device int) error {
	const slab = "2" // Documentation/admin-guide/sysctl/vm.rst, drop_caches: dentries and inodes
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte(slab), 0); err != nil {
		return err
	}
	f, err := os.Open(blockapi.DeviceNode(device))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
		return fmt.Errorf("%s: flush buffers: %w", f.Name(), err)
	}
	return nil
}

func run(ctx context.Context, b block, log io.Writer, files func(*reader)) {
	holding := 0 // PID of the daemon that holds them
	for wait := rand.N(beginWithin); backoff.Sleep(ctx, wait) == nil; wait = lookEvery {
		st, err := b.Status(ctx, 0)
		if err != nil || st.PID == holding {
			continue
		}
		if err := hold(ctx, b, log, files); err != nil {
			fmt.Fprintln(log, err)
			continue
		}
		holding = st.PID
	}
}

func hold(ctx context.Context, b block, log io.Writer, files func(*reader)) error {
	if _, err := b.Hold(ctx, true); err != nil {
		return err
	}
	left := 0
	k := &reader{read: readThrough, known: map[string]bool{},
		pause: func(n int64) bool { return backoff.Sleep(ctx, time.Duration(n)*time.Second/perSecond) == nil },
		free: func() int64 {
			h, err := b.Hold(ctx, false) // the next call counts again what has no room
			if left += h.Left; err == nil {
				_, err = b.Hold(ctx, true)
			}
			if err != nil {
				return 0
			}
			return blockapi.HoldMost - h.Bytes
		}}
	files(k)
	h, err := b.Hold(ctx, false)
	if err == nil {
		_, _ = io.WriteString(log, k.note)
		fmt.Fprintf(log, "what a login reads is held in memory: %d files of %.1f MB, for which %.1f MB are held "+
			"beside the boot pack; %d objects have no room\n",
			k.files, float64(k.bytes)/1e6, float64(h.Bytes)/1e6, left+h.Left)
	}
	return err
}

// reader reads files so that the block daemon holds their objects.
type reader struct {
	root  string                             // "", except in tests
	read  func(f *os.File, size int64) error // bypasses the page cache, whose pages do not reach the daemon
	pause func(bytes int64) bool             // waits after reading this many bytes; false: stop
	free  func() int64                       // bytes that the daemon has room for

	known map[string]bool // names and paths that were handled
	files int
	bytes int64
	over  bool
	note  string // what is left out, for the log
}

func (k *reader) all() {
	k.programs(loginPrograms)
	k.modules()
	k.shells()
	for _, pattern := range smallFiles {
		k.glob(pattern)
	}
	for _, terminal := range terminals {
		for _, dir := range []string{"/etc/terminfo/", "/lib/terminfo/", "/usr/share/terminfo/"} {
			k.glob(dir + terminal[:1] + "/" + terminal)
		}
	}
	k.locales()
	k.programs(tools)
}

func (k *reader) programs(names []string) {
	for _, name := range names {
		k.first(name, programDirs)
	}
}

// first reads the first file of a name in dirs, as the search for programs and libraries does.
func (k *reader) first(name string, dirs []string) {
	if name == "" || k.known[name] {
		return
	}
	k.known[name] = true
	for _, dir := range dirs {
		found, _ := filepath.Glob(k.root + dir + name)
		if len(found) > 0 {
			k.file(found[0])
			return
		}
	}
}

func (k *reader) glob(pattern string) {
	found, _ := filepath.Glob(k.root + pattern)
	for _, path := range found {
		k.file(path)
	}
}

// modules reads the PAM and NSS modules that the system is configured to use.
func (k *reader) modules() {
	for _, dir := range []string{"/etc/pam.d/*", "/usr/lib/pam.d/*"} {
		files, _ := filepath.Glob(k.root + dir)
		for _, f := range files {
			for _, word := range words(f) {
				if strings.HasSuffix(word, ".so") {
					for _, lib := range libraryDirs {
						k.glob(lib + "security/" + filepath.Base(word))
					}
				}
			}
		}
	}
	for _, service := range words(k.root + "/etc/nsswitch.conf") {
		k.first("libnss_"+service+".so.2", libraryDirs)
	}
}

// words returns the words of a configuration file without its comments.
func words(file string) (out []string) {
	b, _ := os.ReadFile(file) // the file may not exist
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		out = append(out, strings.Fields(line)...)
	}
	return out
}

// file reads a file and the libraries that it needs.
func (k *reader) file(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || k.known[target] || k.over {
		return
	}
	k.known[target] = true
	f, err := os.OpenFile(target, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	if k.read(f, info.Size()) != nil {
		return
	}
	k.files, k.bytes, k.over = k.files+1, k.bytes+info.Size(), !k.pause(info.Size())
	libraries, loader := needs(f)
	for _, name := range libraries {
		k.first(name, libraryDirs)
	}
	if loader != "" {
		k.file(k.root + loader)
	}
}

// readThrough reads a file with O_DIRECT, which bypasses the page cache if the file system supports it.
func readThrough(f *os.File, size int64) error {
	const step = 128 << 10
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags|unix.O_DIRECT)
	}
	if err == nil {
		defer unix.FcntlInt(f.Fd(), unix.F_SETFL, flags) // the next reads are not aligned
	}
	page, err := unix.Mmap(-1, 0, step, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(page)
	for at := int64(0); at < size; at += step {
		if _, err := unix.Pread(int(f.Fd()), page, at); err != nil {
			return err
		}
	}
	return nil
}
