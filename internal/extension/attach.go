package extension

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/blockapi"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/link"
	"pando/internal/nbd"
	"pando/internal/problem"
	"pando/internal/rootdir"
	"pando/internal/rundir"
)

// Paths and times of extensions. systemd-sysext looks below Dir.
const (
	Dir              = "/run/extensions"
	DirPrefix        = "ext-"            // its device number follows: directory of its daemons, below RunDir
	StateName        = "extensions.json" // the attached extensions (State), below RunDir
	extensionPatient = time.Minute       // how long to wait for a device
)

// Attached is an extension whose file system is mounted below Dir.
type Attached struct {
	fleet.Extension
	Device int      `json:"device"`
	Block  string   `json:"block"`           // directory of its daemons
	Units  []string `json:"units,omitempty"` // units that it enables
}

// Place returns its mount point.
func (x Attached) Place() string { return filepath.Join(Dir, x.Name) }

// Client returns a client of its block daemon.
func (x Attached) Client() blockapi.Client {
	return blockapi.Client{Socket: filepath.Join(x.Block, blockapi.Socket)}
}

// State lists a node's extensions. Init writes it at boot, the agent reads and updates it.
type State struct {
	On   []Attached          `json:"on,omitempty"`
	Left []rundir.FormerRoot `json:"left,omitempty"` // detached extensions whose devices may still be in use
}

// Listed returns the extensions without their devices.
func Listed(on []Attached) (out []fleet.Extension) {
	for _, x := range on {
		out = append(out, x.Extension)
	}
	return out
}

// Source describes where a node gets its extensions and which keys it trusts.
type Source struct {
	Dir     string // RunDir
	As      fleet.Assignment
	Trust   image.Trust
	Cgroup  string // control group of the daemons; "": that of this process
	Running fleet.Digest
	Network link.Network // for finding peers; the root's daemon maintains it
	Idle    bool         // fetch nothing ahead of reads, because the boot needs the link
	Tell    func(message, hint string)
}

// Attach verifies an extension, attaches its device and mounts it below into. systemd-sysext finds it there once into
// is Dir.
func (s Source) Attach(ctx context.Context, e fleet.Extension, into string) (x Attached, err error) {
	begin, err := s.start(ctx, e)
	if err != nil {
		return x, err
	}
	x = Attached{Extension: e}
	if x.Device, err = freeExtension(); err != nil {
		return x, err
	}
	x.Block = filepath.Join(s.Dir, DirPrefix+strconv.Itoa(x.Device))
	if err := linkProgram(s.Dir, x.Block); err != nil {
		return x, err
	}
	p, err := s.device(ctx, begin, x)
	if err != nil {
		return x, err
	}
	place := filepath.Join(into, e.Name)
	if err = rootdir.MountPoint(place); err == nil {
		err = unix.Mount(
			blockapi.DeviceNode(x.Device),
			place,
			begin.manifest.Root.FileSystem,
			unix.MS_RDONLY|unix.MS_NODEV,
			"",
		)
	}
	if err != nil {
		p.Stop()
		return x, errors.Join(fmt.Errorf("mount extension %s: %w", e.Name, err), os.RemoveAll(x.Block))
	}
	p.Release()
	x.Units = wantedUnits(place)
	return x, nil
}

// device starts the daemons behind an extension and waits until the kernel has its device.
func (s Source) device(ctx context.Context, begin extensionStart, x Attached) (*blockapi.Process, error) {
	log, err := os.OpenFile("/dev/kmsg", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p, err := blockapi.Start{
		Dir:    x.Block,
		Binary: "/" + rundir.BinaryName,
		Log:    log,
		Config: s.config(begin, x.Device),
		Cgroup: s.Cgroup,
	}.Start()
	if err != nil {
		return nil, fmt.Errorf("start the block daemon of extension %s: %w", x.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, extensionPatient)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		p.Stop()
		return nil, errors.Join(fmt.Errorf("attach extension %s: %w", x.Name, err), os.RemoveAll(x.Block))
	}
	blockapi.ShortenTimeout(x.Device)
	blockapi.ReadLittleAhead(x.Device)
	return p, nil
}

// fitsHere returns an error unless the extension was built for the running version, under this name and for this
// architecture.
func fitsHere(man image.Manifest, e fleet.Extension, running fleet.Digest) error {
	if err := man.Fits(running); err != nil {
		return &problem.Problem{
			Err:  err,
			Hint: fmt.Sprintf("build it for what runs here: pando image extend IMAGE@%s --name %s", running, e.Name),
		}
	}
	if man.Extends.Name != e.Name {
		return fmt.Errorf("extension %s: the version is of %s", e.Name, man.Extends.Name)
	}
	if man.Architecture != runtime.GOARCH {
		return fmt.Errorf("extension %s is for %s, this machine is %s", e.Name, man.Architecture, runtime.GOARCH)
	}
	return nil
}

func freeExtension() (int, error) {
	for n := blockapi.FirstExtension; n < blockapi.FirstExtension+2*fleet.MaxExtensions; n++ {
		if on, err := (nbd.KernelDevice{Index: n}).Connected(); err != nil || !on {
			return n, err
		}
	}
	return 0, &problem.Problem{
		Err:  errors.New("too many extensions are attached"),
		Hint: "programs still use detached extensions: end them, or reboot the node",
	}
}

// linkProgram makes a directory for a pair of daemons, with a hard link to their program.
func linkProgram(from, dir string) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	err := os.Link(filepath.Join(from, rundir.BinaryName), filepath.Join(dir, rundir.BinaryName))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// wantedUnits returns the units that an extension enables (links in *.target.wants).
func wantedUnits(place string) (out []string) {
	links, _ := filepath.Glob(filepath.Join(place, "usr/lib/systemd/system/*.target.wants/*"))
	for _, l := range links {
		if name := filepath.Base(l); !strings.Contains(name, "@.") {
			out = append(out, name)
		}
	}
	return out
}

// MoveFrom mounts an extension that is mounted on apart where systemd-sysext looks, and unmounts apart. It does not
// use MS_MOVE, which the kernel refuses below a shared mount.
func (x Attached) MoveFrom(apart string) error {
	if err := rootdir.MountPoint(x.Place()); err != nil {
		return err
	}
	if err := unix.Mount(apart, x.Place(), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Unmount(apart, unix.MNT_DETACH); err != nil {
		return err
	}
	_ = os.Remove(apart) // an empty directory does no harm
	return nil
}
