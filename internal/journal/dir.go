package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The programs of systemd, and where systemd-journal-remote is if it is not in PATH.
const (
	remoteName = "systemd-journal-remote"
	remoteDir  = "/lib/systemd"
	readerName = "journalctl"
)

// Default limits, in bytes of disk space.
const (
	DefaultTotal = 10 << 30
	DefaultNode  = 256 << 20
	DefaultFree  = 1 << 30
)

// ErrNone means that no journal of a node or a boot is kept.
var ErrNone = errors.New("no journal is kept")

// ErrFull means that the disk is full.
var ErrFull = errors.New("the disk of the journals is full")

// ErrBusy means that an upload of the boot is running already, or that too many followers are active.
var ErrBusy = errors.New("busy")

// Options are the options of a directory of journals. A zero number means its default.
type Options struct {
	Path  string
	Total int64 // limit of all journals, in bytes
	Node  int64 // limit of one node's journals, in bytes
	Free  int64 // bytes that must stay free on the disk
	Log   *slog.Logger
}

// Dir is a directory of journals. Make it with Open.
type Dir struct {
	Options
	remote, reader string
	as             *syscall.Credential // user of systemd's programs; nil: the user of this process

	slots   chan struct{} // limits running systemd-journal-remotes
	readers chan struct{} // limits running journalctls
	follows chan struct{} // limits followers

	mu     sync.Mutex
	have   map[string]map[string]*boot // by node and boot id
	counts counts
}

// boot describes the kept journal of one boot.
type boot struct {
	bytes  int64
	newest time.Time
	busy   bool // an upload is running
}

// Limits of what runs at the same time.
const (
	mostRemotes = 2
	mostReaders = 4
	mostFollows = 64
)

// Find returns the path of systemd-journal-remote on this machine. Its error says what to install.
func Find() (string, error) {
	if path, err := exec.LookPath(remoteName); err == nil {
		return path, nil
	}
	path := filepath.Join(remoteDir, remoteName)
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf(
			"%s is not installed (Debian, Fedora: package systemd-journal-remote): %w",
			remoteName,
			fs.ErrNotExist,
		)
	}
	return path, nil
}

// Open opens a directory of journals, and makes it if needed.
func Open(o Options) (*Dir, error) {
	d := &Dir{
		Options: o,
		slots:   make(chan struct{}, mostRemotes),
		readers: make(chan struct{}, mostReaders),
		follows: make(chan struct{}, mostFollows),
	}
	for _, b := range []struct {
		field *int64
		value int64
	}{{&d.Total, DefaultTotal}, {&d.Node, DefaultNode}, {&d.Free, DefaultFree}} {
		if *b.field == 0 {
			*b.field = b.value
		}
	}
	var err error
	if d.remote, err = Find(); err != nil {
		return nil, err
	}
	if d.reader, err = exec.LookPath(readerName); err != nil {
		return nil, fmt.Errorf("%s is not installed (package systemd): %w", readerName, err)
	}
	d.as = unprivileged()
	if err := os.MkdirAll(d.Path, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of journals: %w", err)
	}
	if err := d.own(d.Path); err != nil {
		return nil, err
	}
	return d, d.scan()
}

// unprivileged returns the user systemd-journal-remote, so that the program parses data of nodes without further
// rights; nil if there is no such user, or without root.
func unprivileged() *syscall.Credential {
	u, err := user.Lookup(remoteName)
	if err != nil || os.Geteuid() != 0 {
		return nil
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// own changes the owner of a directory to the user of systemd's programs.
func (d *Dir) own(path string) error {
	if d.as == nil {
		return nil
	}
	if err := os.Chown(path, int(d.as.Uid), int(d.as.Gid)); err != nil {
		return fmt.Errorf("directory of journals: %w", err)
	}
	return nil
}

// scan reads which journals exist.
func (d *Dir) scan() error {
	d.have = map[string]map[string]*boot{}
	nodes, err := os.ReadDir(d.Path)
	if err != nil {
		return fmt.Errorf("read the directory of journals: %w", err)
	}
	for _, n := range nodes {
		boots, err := os.ReadDir(filepath.Join(d.Path, n.Name()))
		if err != nil {
			continue // no directory
		}
		for _, b := range boots {
			if of, err := d.weigh(n.Name(), b.Name()); err == nil {
				d.put(n.Name(), b.Name(), of)
				if of.bytes > 0 && of.newest.After(d.counts.last) {
					d.counts.last = of.newest
				}
			}
		}
	}
	return nil
}

func (d *Dir) put(node, id string, b boot) {
	if d.have[node] == nil {
		d.have[node] = map[string]*boot{}
	}
	d.have[node][id] = &b
}

func (d *Dir) dir(node, id string) string { return filepath.Join(d.Path, node, id) }

// weigh returns size and time of a boot's journal files.
func (d *Dir) weigh(node, id string) (boot, error) {
	files, err := parts(d.dir(node, id))
	var b boot
	for _, f := range files {
		b.bytes += f.bytes
		if f.changed.After(b.newest) {
			b.newest = f.changed
		}
	}
	return b, err
}

// part is a journal file of a boot.
type part struct {
	name    string
	bytes   int64 // disk space, in bytes
	changed time.Time
}

// parts returns the journal files of a directory, the oldest first.
func parts(dir string) ([]part, error) {
	files, err := os.ReadDir(dir)
	var out []part
	for _, f := range files {
		fi, err := f.Info()
		if err != nil || !fi.Mode().IsRegular() || !isJournal(f.Name()) {
			continue
		}
		p := part{name: f.Name(), bytes: fi.Size(), changed: fi.ModTime()}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			p.bytes = st.Blocks * 512
		}
		out = append(out, p)
	}
	slices.SortStableFunc(out, func(a, b part) int { return a.changed.Compare(b.changed) })
	return out, err
}

// isJournal reports whether a name is that of a journal file; ".journal~" is a file that was not closed.
func isJournal(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".journal" || ext == ".journal~"
}

// Kept is a boot with a journal.
type Kept struct {
	Boot   string
	Bytes  int64     // disk space, in bytes
	Newest time.Time // when the last line arrived
}

// Boots returns the boots of a node that have journals, the newest first.
func (d *Dir) Boots(node string) []Kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Kept
	for id, b := range d.have[node] {
		if b.bytes > 0 { // else no line has arrived yet
			out = append(out, Kept{id, b.bytes, b.newest})
		}
	}
	slices.SortFunc(out, func(a, b Kept) int { return b.Newest.Compare(a.Newest) })
	return out
}

// Usage returns the disk space of all journals, in bytes.
func (d *Dir) Usage() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.total()
}

func (d *Dir) total() (n int64) {
	for node := range d.have {
		n += d.usage(node)
	}
	return n
}

func (d *Dir) usage(node string) (n int64) {
	for _, b := range d.have[node] {
		n += b.bytes
	}
	return n
}

// Rename moves the journals of a node to another name. It is no error if there are none.
func (d *Dir) Rename(node, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.have[node] == nil || node == to {
		return nil
	}
	if err := os.Rename(filepath.Join(d.Path, node), filepath.Join(d.Path, to)); err != nil {
		return fmt.Errorf("rename the journals of %s to %s: %w", node, to, err)
	}
	d.have[to] = d.have[node]
	delete(d.have, node)
	return nil
}

// Delete removes the journals of a node.
func (d *Dir) Delete(node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.have, node)
	if err := os.RemoveAll(filepath.Join(d.Path, node)); err != nil {
		return fmt.Errorf("delete the journals of %s: %w", node, err)
	}
	return nil
}

// acquire waits for a slot of a semaphore, and returns the function that releases the slot.
func acquire(ctx context.Context, queue chan struct{}) (leave func(), err error) {
	select {
	case queue <- struct{}{}:
		return func() { <-queue }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
