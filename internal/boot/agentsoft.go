package boot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/nbd"
	"pando/internal/trace"
)

// nextRootDir is where systemd (254 and later) looks for the root that a soft reboot goes to.
const nextRootDir = "/run/nextroot"

// softTarget is in every root whose systemd knows soft reboots.
const softTarget = "/usr/lib/systemd/system/soft-reboot.target"

// initScope is the control group of what was there before systemd. Daemons of the root that were started in the agent's own would
// be killed with it.
const initScope = "/sys/fs/cgroup/init.scope"

// How long the way to the next root may take. What takes longer is a reboot by firmware.
const (
	softBegin    = 2 * time.Minute // from the begin of the next boot until systemd is asked
	prefetchMost = 5 * time.Minute
	prefetchLook = 500 * time.Millisecond
	prefetchIdle = 5 * time.Second // without a byte more: what there is room for is there
)

// softReboot goes to the next boot with the kernel that runs. Whatever keeps it from that, the node reboots.
func (a *agent) softReboot(ctx context.Context) {
	m, err := a.stage(ctx)
	if err == nil {
		err = a.toNext(ctx, m)
	}
	if err == nil {
		return
	}
	why := "it reboots by its firmware, for it cannot go on with the kernel that runs: " + err.Error()
	a.logf("%s", why)
	if m != nil && m.channel.session.Load() != nil {
		m.event(trace.Event{Stage: trace.SwitchRoot, Kind: trace.Fail, Attempt: 1, Message: why, Hint: hintOf(err)})
		m.flush(rebootFlush)
	} else {
		a.info(why, hintOf(err))
		flush, cancel := context.WithTimeout(ctx, rebootFlush)
		defer cancel()
		_ = a.report.flush(flush)
	}
	if _, err := systemctl(ctx, "reboot"); err != nil {
		a.logf("reboot: %v", err)
	}
}

// stage attaches the device of what the node boots next, and waits until its boot pack is there. Nothing of it is seen by the system
// that runs.
func (a *agent) stage(ctx context.Context) (*machine, error) {
	self := a.self()
	if _, err := os.Stat(filepath.Join(a.root, softTarget)); err != nil {
		return nil, errors.New("the systemd that runs knows no soft reboot: it is older than 254")
	}
	if len(self.TrustKeys) == 0 {
		return nil, errors.New("it was started by a release that leaves no keys to trust")
	}
	var told api.StageResponse
	if err := a.control.call(ctx, "/v1/node/stage", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot}, &told); err != nil {
		return nil, err
	}
	as, err := checkAssignment(api.HelloResponse{Assignment: told.Assignment, Signature: told.Signature, Session: self.Session},
		api.BootConfig{Boot: self.Boot, ServerKey: self.ServerKey})
	if err != nil {
		return nil, err
	}
	m, err := a.nextMachine()
	if err != nil {
		return nil, err
	}
	m.assignment.Store(&as)
	if _, err := m.fetchManifest(ctx); err != nil {
		return nil, err
	}
	if _, err := m.attachDevice(ctx); err != nil {
		return nil, err
	}
	begun := time.Now()
	err = m.prefetch(ctx)
	if err == nil {
		err = m.warm()
	}
	if err != nil {
		m.unstage()
		return nil, err
	}
	a.logf("%s is staged, after %s", as.Version.Short(), time.Since(begun).Round(100*time.Millisecond))
	return m, nil
}

// unstage takes a device away again that nobody has used yet.
func (m *machine) unstage() {
	if m.lowered {
		_ = unix.Unmount(m.at.lower, unix.MNT_DETACH) // else the device stays until the node reboots
		m.lowered = false
	}
	if m.device != nil {
		m.device.Stop()
		m.device = nil
	}
}

// nextMachine is a boot as init would make it, on the machine that runs.
func (a *agent) nextMachine() (*machine, error) {
	s := a.self()
	m := &machine{release: a.release, started: time.Now(), origin: monotonic(), console: &console{kmsg: a.log}, begun: map[trace.Stage]time.Time{},
		control: a.control, known: &s.Hardware, cgroup: initScope, former: append(slices.Clone(s.Former), formerRoot{s.Block, s.Device}), stale: s.RunFiles,
		config: api.BootConfig{Format: 1, MAC: s.MAC, ServerKey: s.ServerKey, Control: s.Control, TrustKeys: s.TrustKeys}}
	m.report = newReporter(m.post)
	m.channel.network.Store(true)
	if err := readJSON(a.dir, leaseName, &m.lease); err != nil {
		return nil, err
	}
	device, err := freeDevice()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(a.dir, fmt.Sprintf("root-%d", device))
	m.at = places{lower: filepath.Join(dir, "lower"), upper: filepath.Join(dir, "upper"), root: nextRootDir, block: dir, device: device}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, err
	}
	err = os.Link(filepath.Join(a.dir, binaryName), filepath.Join(dir, binaryName))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return m, nil
}

// freeDevice is a number of which there is no attached device.
func freeDevice() (int, error) {
	for n := range 4 {
		if n == volumeDevice {
			continue
		}
		if on, err := (nbd.KernelDevice{Index: n}).Connected(); err != nil || !on {
			return n, err
		}
	}
	return 0, &Problem{Err: errors.New("three roots are attached already"), Hint: "what is still used of the roots before? see the node's journal"}
}

// prefetch waits until the boot pack is there, as far as there is room for it.
func (m *machine) prefetch(ctx context.Context) error {
	if m.pack == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, prefetchMost)
	defer cancel()
	client, fetches, since := BlockClient{Socket: filepath.Join(m.at.block, BlockSocket)}, int64(-1), time.Now()
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
		if err := sleep(ctx, prefetchLook); err != nil {
			return fmt.Errorf("fetch the boot pack: %w", err)
		}
	}
}

// toNext begins the next boot, makes its root, and has systemd go there.
func (a *agent) toNext(ctx context.Context, m *machine) error {
	ctx, cancel := context.WithTimeout(ctx, softBegin)
	defer cancel()
	self, staged := a.self(), m.assigned().Version
	a.event(trace.Event{Stage: trace.Shutdown, Kind: trace.End, Message: "goes on with its next boot, by soft-reboot"})
	if err := a.report.flush(ctx); err != nil {
		a.logf("report: %v", err)
	}
	var next api.BeginResponse
	if err := a.control.call(ctx, "/v1/node/next", "Bearer "+self.Session, api.NodeNext{Boot: self.Boot}, &next); err != nil {
		return err
	}
	m.report.take() // of staging, which is no part of a boot
	m.started, m.origin = time.Now(), monotonic()
	m.begin.Store(&next)
	reporting, stop := context.WithCancel(ctx)
	defer stop()
	go m.report.run(reporting)
	m.event(trace.Event{Stage: trace.Init, Kind: trace.End, Message: "the kernel goes on; no firmware, no kernel"})
	r := Runner{Phases: m.softPhases(staged), Report: m.event, RebootAfter: func() time.Duration { return softBegin / 2 }}
	if err := r.Run(ctx); err != nil {
		return err
	}
	m.flush(switchFlush)
	stop()
	m.collect(switchFlush)
	return a.leaveFor(ctx, m)
}

// softPhases are those of a boot that has its kernel, its network and its device.
func (m *machine) softPhases(staged fleet.Digest) []Phase {
	return []Phase{
		{Stage: trace.Hello, Run: m.hello},
		{Stage: trace.Manifest, Run: m.fetchManifest},
		{Stage: trace.Device, Run: func(ctx context.Context) (string, error) {
			if m.assigned().Version == staged {
				return m.at.node() + ", staged before", nil
			}
			m.unstage() // its group desires another one since
			return m.attachDevice(ctx)
		}},
		{Stage: trace.Root, Run: m.mountRoot},
		{Stage: trace.Config, Run: m.configure},
		{Stage: trace.SwitchRoot, Run: m.prepareSoft},
	}
}

// prepareSoft checks that the next root can be gone to.
func (m *machine) prepareSoft(ctx context.Context) (string, error) {
	root, err := openRootDir(m.at.root)
	if err != nil {
		return "", err
	}
	defer root.close()
	if err := knowsSoft(root); err != nil {
		return "", err
	}
	return m.prepareSwitch(ctx)
}

func knowsSoft(root *rootDir) error {
	if root.exists(softTarget) {
		return nil
	}
	return &Problem{Err: errors.New("the next version's systemd knows no soft reboot: it is older than 254"), Final: true}
}

// leaveFor leaves what the agent of the next boot has to know, and asks systemd to go there. It takes this agent along.
func (a *agent) leaveFor(ctx context.Context, m *machine) error {
	a.leaving.Store(true)
	if m.device != nil {
		m.device.Release()
	}
	err := errors.Join(writeJSON(a.dir, eventsName, 0o600, m.report.take()), writeJSON(a.dir, progressName, 0o600, progress{Traced: true}),
		os.RemoveAll(filepath.Join(a.dir, marksName)), replaceLink(filepath.Join(m.at.block, BlockSocket), filepath.Join(a.dir, BlockSocket)))
	if err != nil {
		return err
	}
	_, err = systemctl(ctx, "soft-reboot")
	if err != nil {
		return fmt.Errorf("systemctl soft-reboot: %w", err)
	}
	return nil
}

// replaceLink makes name a symbolic link.
func replaceLink(target, name string) error {
	_ = os.Remove(name + ".new")
	if err := os.Symlink(target, name+".new"); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// formerRoot is a root that the node has left.
type formerRoot struct {
	Block  string `json:"block"`
	Device int    `json:"device"`
}

// retireEvery is how often is looked whether a root is still used.
const retireEvery = 2 * time.Second

// retire detaches the roots that were left, each when nothing uses it any more.
func (a *agent) retire(ctx context.Context) {
	left := a.session.Former
	for len(left) > 0 {
		if sleep(ctx, retireEvery) != nil {
			return
		}
		var still []formerRoot
		for _, f := range left {
			if err := f.detach(); err != nil {
				still = append(still, f)
				if !errors.Is(err, unix.EBUSY) {
					a.logf("detach the root before: %v", err)
				}
				continue
			}
			a.logf("/dev/nbd%d, the root before, is detached", f.Device)
		}
		if len(still) != len(left) {
			s := a.self()
			s.Former = still
			if err := writeJSON(a.dir, sessionName, 0o600, s); err != nil {
				a.logf("%v", err)
			}
		}
		left = still
	}
}

// detach ends the daemons of a root and takes its device away; EBUSY while it is mounted.
func (f formerRoot) detach() error {
	p := places{device: f.Device}
	dev, err := os.OpenFile(p.node(), os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		return err
	}
	defer dev.Close()
	var dir unix.Stat_t
	if err := unix.Stat(f.Block, &dir); err != nil {
		return err
	}
	// A supervisor would replace the daemon, which ends with its device.
	for _, pid := range daemonsIn("/proc", dir, SupervisorName) {
		_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
	}
	if err := (nbd.KernelDevice{Index: f.Device}).Disconnect(); err != nil {
		return err
	}
	if err := endDaemons(dir); err != nil {
		return fmt.Errorf("%s: %w", f.Block, err)
	}
	if f.Block == RunDir {
		return nil // the agent's too; the socket is a link by now
	}
	return os.RemoveAll(f.Block)
}

// endDaemons kills the daemons that live in a directory. Each replaces the other as long as it sees its end, so it is done until there are
// none.
func endDaemons(dir unix.Stat_t) error {
	for range 100 {
		pids := daemonsIn("/proc", dir, SupervisorName, BlockName)
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("the block daemons do not end")
}
