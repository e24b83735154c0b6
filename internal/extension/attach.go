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

// Where extensions are: systemd-sysext looks below extensionsDir.
const (
	Dir              = "/run/extensions"
	DirPrefix        = "ext-"            // and the number of its device: directory of its daemons, below RunDir
	StateName        = "extensions.json" // what is laid over the root, below RunDir
	extensionPatient = time.Minute       // until a device is there
)

// Attached is an extension whose file system is mounted below extensionsDir.
type Attached struct {
	fleet.Extension
	Device int      `json:"device"`
	Block  string   `json:"block"`           // directory of its daemons
	Units  []string `json:"units,omitempty"` // that it wants to run
}

// Place is where it is mounted.
func (x Attached) Place() string { return filepath.Join(Dir, x.Name) }

// Client asks its block daemon.
func (x Attached) Client() blockapi.Client {
	return blockapi.Client{Socket: filepath.Join(x.Block, blockapi.Socket)}
}

// State is what the agent has to know of extensions, from boot on.
type State struct {
	On   []Attached          `json:"on,omitempty"`
	Left []rundir.FormerRoot `json:"left,omitempty"` // devices that were taken away, and may be used still
}

// Listed are the extensions by themselves.
func Listed(on []Attached) (out []fleet.Extension) {
	for _, x := range on {
		out = append(out, x.Extension)
	}
	return out
}

// Source is from where a node takes extensions, and whom it trusts.
type Source struct {
	Dir     string // RunDir
	As      fleet.Assignment
	Trust   image.Trust
	Cgroup  string // of the daemons; "": this process's
	Running fleet.Digest
	Network link.Network // that peers are in; it is kept up by the root's daemon
	Idle    bool         // nothing is fetched ahead: the boot needs the link
	Tell    func(message, hint string)
}

// Attach verifies an extension, attaches its device and mounts it, where systemd-sysext will find it with into as
// extensionsDir.
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

// device starts the daemons behind an extension.
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

// fitsHere refuses what cannot be laid over the version that runs on this machine.
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
		Hint: "programs still use those of before: end them, or reboot the node",
	}
}

// linkProgram makes a directory for a pair of daemons.
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

// wantedUnits are the units that an extension has enabled for itself.
func wantedUnits(place string) (out []string) {
	links, _ := filepath.Glob(filepath.Join(place, "usr/lib/systemd/system/*.target.wants/*"))
	for _, l := range links {
		if name := filepath.Base(l); !strings.Contains(name, "@.") {
			out = append(out, name)
		}
	}
	return out
}

// MoveFrom mounts an extension where systemd-sysext finds it. What is mounted below a shared place cannot be moved.
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
