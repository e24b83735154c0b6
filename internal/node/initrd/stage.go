package initrd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/backoff"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/link"
	"pando/internal/nbd"
	"pando/internal/problem"
	"pando/internal/rundir"
)

// Directories of next roots, below the run directory.
const (
	rootPrefix = "root-" // the device's number follows
)

// Bounds of waiting for a boot pack.
const (
	prefetchMost = 5 * time.Minute
	prefetchLook = 500 * time.Millisecond
	prefetchIdle = 5 * time.Second // after this time without another object, all that fits into memory is there
)

// nextAgent is the part of the agent that NextBoot uses.
type nextAgent interface {
	Self() rundir.Session                        // the node's identity in this boot
	Info(message, hint string)                   // puts a fact on the timeline
	Flush(ctx context.Context) error             // sends the queued events
	Goodbye(ctx context.Context, message string) // reports that this boot is over
}

// NextBoot stages the next boot of a running node, and starts it without ending the kernel.
type NextBoot struct {
	dir     string // the run directory
	root    string // "/"
	release string
	control *control.Client
	agent   nextAgent
	parts   Parts
	log     io.Writer

	staging sync.Mutex             // held while a version is staged
	staged  atomic.Pointer[staged] // nil: nothing is staged
	leaving atomic.Bool            // the files of the next boot's agent are written: do not change them any more
}

// staged is a boot that was prepared ahead: its device is attached.
type staged struct {
	*machine
	lease link.Lease // lease of the running boot
}

// NewNextBoot returns a NextBoot that has staged nothing.
func NewNextBoot(
	dir, release string,
	control *control.Client,
	agent nextAgent,
	parts Parts,
	log io.Writer,
) *NextBoot {
	return &NextBoot{parts: parts, dir: dir, root: "/", release: release, control: control, agent: agent, log: log}
}

// Leaving reports whether the node is on its way to its next boot, whose agent's files are written.
func (n *NextBoot) Leaving() bool { return n.leaving.Load() }

// Staged returns the staged version, "" if there is none.
func (n *NextBoot) Staged() fleet.Digest {
	if m := n.staged.Load(); m != nil {
		return m.timeline.assigned().Version
	}
	return ""
}

func (n *NextBoot) logf(format string, args ...any) { fmt.Fprintf(n.log, format+"\n", args...) }

// StageAhead stages the assigned version and reports the result.
func (n *NextBoot) StageAhead(ctx context.Context) {
	n.staging.Lock()
	defer n.staging.Unlock()
	m, err := n.stage(ctx)
	if err != nil {
		n.agent.Info("the node's next version cannot be staged: "+err.Error(), problem.HintOf(err))
		return
	}
	n.agent.Info("staged "+m.timeline.assigned().Version.Short()+": it was fetched ahead", "")
}

// stage attaches the device of the assigned version and waits for its boot pack. The running system does not see it.
// It reuses the same staged version and detaches another one. The caller holds staging.
func (n *NextBoot) stage(ctx context.Context) (*staged, error) {
	self := n.agent.Self()
	if _, err := os.Stat(filepath.Join(n.root, softTarget)); err != nil {
		return nil, errors.New("the systemd that runs knows no soft reboot: it is older than 254")
	}
	if len(self.TrustKeys) == 0 {
		return nil, errors.New("the node was started by an older release, which stored no keys to trust: reboot it")
	}
	var told api.StageResponse
	if err := n.control.Call(ctx, "/v1/node/stage", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot},
		&told); err != nil {
		return nil, err
	}
	as, err := control.CheckAssignment(
		api.RegisterResponse{Assignment: told.Assignment, Signature: told.Signature, Session: self.Session},
		api.BootConfig{Boot: self.Boot, ServerKey: self.ServerKey},
	)
	if err != nil {
		return nil, err
	}
	if m := n.staged.Load(); m != nil {
		if m.timeline.assigned().Version == as.Version {
			return m, nil
		}
		n.staged.Store(nil)
		m.unstage()
	}
	m, err := n.machine()
	if err != nil {
		return nil, err
	}
	m.timeline.assignment.Store(&as)
	session := &Session{Assignment: as}
	v, _, err := m.version.fetchManifest(ctx, session, m.lease)
	if err != nil {
		return nil, err
	}
	if _, err := m.rootDevice.attachDevice(ctx, session, v, m.lease); err != nil {
		return nil, err
	}
	begun := time.Now()
	if v.Pack != nil {
		err = m.rootDevice.prefetch(ctx)
	}
	if err == nil {
		err = m.rootMount.warm(v.Manifest.Root.FileSystem)
	}
	if err != nil {
		m.unstage()
		return nil, err
	}
	n.staged.Store(m)
	n.logf("%s is staged, after %s", as.Version.Short(), time.Since(begun).Round(100*time.Millisecond))
	return m, nil
}

// unstage detaches a staged device that is not in use yet.
func (m *machine) unstage() {
	if m.rootMount.lowered {
		_ = unix.Unmount(m.rootMount.at.lower, unix.MNT_DETACH) // if it fails, the device stays until the node reboots
		m.rootMount.lowered = false
	}
	if m.rootDevice.device != nil {
		m.rootDevice.device.Stop()
		m.rootDevice.device = nil
	}
}

// machine returns a new boot on the running machine, with its own places.
func (n *NextBoot) machine() (*staged, error) {
	s := n.agent.Self()
	var lease link.Lease
	if err := rundir.ReadJSON(n.dir, rundir.LeaseName, &lease); err != nil {
		return nil, err
	}
	device, err := freeDevice()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(n.dir, rootPrefix+strconv.Itoa(device))
	m := newMachine(n.release, places{
		lower:  filepath.Join(dir, blockapi.LowerName),
		upper:  filepath.Join(dir, "upper"),
		root:   nextRootDir,
		block:  dir,
		device: device,
	}, n.parts)
	l := m.timeline
	l.console, l.control = &console{kmsg: n.log}, n.control
	l.config = api.BootConfig{
		Format:    1,
		MAC:       s.MAC,
		ServerKey: s.ServerKey,
		Control:   s.Control,
		TrustKeys: s.TrustKeys,
	}
	l.channel.network.Store(true)
	m.registration.known, m.cacheDisk.running = &s.Hardware, true
	m.rootDevice.cgroup, m.settings.cgroup = blockapi.InitScope, blockapi.InitScope
	m.settings.stale = s.RunFiles
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	err = os.Link(filepath.Join(n.dir, rundir.BinaryName), filepath.Join(dir, rundir.BinaryName))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return &staged{m, lease}, nil
}

// freeDevice returns the number of a root device that is not attached.
func freeDevice() (int, error) {
	for n := range 4 {
		if n == blockapi.VolumeDevice {
			continue
		}
		if on, err := (nbd.KernelDevice{Index: n}).Connected(); err != nil || !on {
			return n, err
		}
	}
	return 0, &problem.Problem{
		Err:  errors.New("three roots are attached already"),
		Hint: "see the node's journal for what still uses a previous root, or reboot the node",
	}
}

// prefetch waits until the boot pack, or as much of it as fits into memory, is there.
func (d *rootDevice) prefetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prefetchMost)
	defer cancel()
	client, fetches, since := blockapi.Client{Socket: filepath.Join(d.at.block, blockapi.Socket)}, int64(-1), time.Now()
	for {
		s, err := client.Status(ctx, 0)
		switch {
		case err != nil:
			return err
		case s.Complete > 0:
			return nil
		case s.Fetches != fetches:
			fetches, since = s.Fetches, time.Now()
		case time.Since(since) > prefetchIdle:
			return nil
		}
		if err := backoff.Sleep(ctx, prefetchLook); err != nil {
			return fmt.Errorf("fetch the boot pack: %w", err)
		}
	}
}
