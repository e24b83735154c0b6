package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pando/internal/command"
)

// Dir is a directory of volumes. Make it with Open.
type Dir struct {
	path string
	log  *slog.Logger

	serving sync.WaitGroup

	mu   sync.Mutex
	held map[string]*volume
}

// Want is the wanted size and file system of a volume.
type Want struct {
	Size       int64  // bytes; a larger volume is not made smaller
	FileSystem string // file system of a new volume: ext4, xfs, or "" for none
}

// Info describes a volume.
type Info struct {
	Name      string
	Size      int64 // bytes, as the node sees it
	Used      int64 // disk space that it uses on this machine, in bytes
	Changed   time.Time
	Attached  bool
	Snapshots []Snapshot
}

// Snapshot is an earlier state of a volume.
type Snapshot struct {
	Name string
	Made time.Time
}

// ErrAttached means that a node is connected to the volume.
var ErrAttached = errors.New("the volume is attached")

// ErrNone means that there is no such volume.
var ErrNone = errors.New("there is no such volume")

// Open opens a directory of volumes. The directory is made with the first volume. If log is nil, nothing is logged.
func Open(path string, log *slog.Logger) *Dir {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Dir{path: path, log: log, held: map[string]*volume{}}
}

const suffix = ".qcow2"

func (d *Dir) file(name string) string { return filepath.Join(d.path, name+suffix) }

func (d *Dir) of(name string) *volume {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.held[name]
	if v == nil {
		v = &volume{slot: make(chan struct{}, 1)}
		d.held[name] = v
	}
	return v
}

// ensure makes a volume that does not exist, and enlarges one that is too small. The caller holds the volume's slot.
func (d *Dir) ensure(ctx context.Context, name string, want Want) error {
	if _, err := os.Stat(d.file(name)); err == nil {
		return d.grow(ctx, name, want.Size)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("make the directory of volumes: %w", err)
	}
	raw, fresh := filepath.Join(d.path, name+".raw"), filepath.Join(d.path, name+".new")
	defer os.Remove(raw)
	defer os.Remove(fresh)
	steps := [][]string{{"truncate", "-s", fmt.Sprint(want.Size), raw}}
	switch want.FileSystem {
	case "ext4":
		steps = append(
			steps,
			[]string{
				"mke2fs",
				"-q",
				"-F",
				"-t",
				"ext4",
				"-m",
				"1",
				"-L",
				"pando-state",
				"-E",
				"lazy_itable_init=1,lazy_journal_init=1",
				raw,
			},
		)
	case "xfs":
		steps = append(steps, []string{"mkfs.xfs", "-q", "-f", "-L", "pando-state", raw})
	}
	for _, s := range append(steps, []string{"qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", raw, fresh}) {
		if err := run(ctx, s...); err != nil {
			return fmt.Errorf("make volume %s: %w", name, err)
		}
	}
	return put(fresh, d.file(name))
}

func (d *Dir) grow(ctx context.Context, name string, size int64) error {
	i, err := d.read(ctx, name)
	if err != nil || i.Size >= size {
		return err
	}
	return run(ctx, "qemu-img", "resize", "-q", "-f", "qcow2", d.file(name), fmt.Sprint(size))
}

// put syncs a complete file and renames it, so that after a power cut either the old or the new file exists.
func put(from, to string) error {
	for _, p := range []string{from, filepath.Dir(to)} {
		if p != from {
			if err := os.Rename(from, to); err != nil {
				return err
			}
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return fmt.Errorf("sync %s: %w", p, err)
		}
	}
	return nil
}

// run runs a program. Its error contains the program's output.
func run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], command.Ended(ctx, err), strings.TrimSpace(string(out)))
	}
	return nil
}

// read describes a volume by qemu-img, whether it is attached or not.
func (d *Dir) read(ctx context.Context, name string) (Info, error) {
	st, err := os.Stat(d.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, fmt.Errorf("volume %s: %w", name, ErrNone)
	}
	if err != nil {
		return Info{}, err
	}
	out, err := exec.CommandContext(ctx, "qemu-img", "info", "--output=json", "-U", "-f", "qcow2", d.file(name)).
		Output()
	if err != nil {
		return Info{}, fmt.Errorf("read volume %s: qemu-img: %w", name, command.Ended(ctx, err))
	}
	var info struct {
		Size      int64 `json:"virtual-size"`
		Actual    int64 `json:"actual-size"`
		Snapshots []struct {
			Name string `json:"name"`
			Date int64  `json:"date-sec"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return Info{}, fmt.Errorf("read volume %s: qemu-img: %w", name, err)
	}
	i := Info{Name: name, Size: info.Size, Used: info.Actual, Changed: st.ModTime(), Attached: d.of(name).attached()}
	for _, s := range info.Snapshots {
		i.Snapshots = append(i.Snapshots, Snapshot{s.Name, time.Unix(s.Date, 0)})
	}
	return i, nil
}

// List returns all volumes by name.
func (d *Dir) List(ctx context.Context) ([]Info, error) {
	files, err := filepath.Glob(filepath.Join(d.path, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, f := range files {
		i, err := d.read(ctx, strings.TrimSuffix(filepath.Base(f), suffix))
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}
