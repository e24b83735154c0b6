package initrd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/bootfiles"
	"pando/internal/control"
	"pando/internal/extension"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/kmod"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// machine is one boot as init sees it: what the phases learn and hand on to each other. The phases run one
// after another, so only what the reporter or the runner reads while a phase works is guarded.
type machine struct {
	release string
	at      places
	started time.Time     // zero of the timeline
	origin  time.Duration // the same on CLOCK_MONOTONIC, for the agent
	nonce   string        // with which hello may be said again when its answer was lost
	console *console
	report  *control.Reporter
	cmd     kmod.CommandLine
	config  api.BootConfig
	control *control.Client
	channel channel
	begin   atomic.Pointer[api.BeginResponse] // of a boot medium, when a server answered
	known   *fleet.Hardware                   // of a machine that runs: what it was when it started
	cgroup  string                            // of the daemons that it starts; "": its own
	offline *lastboot.Boot                    // what a boot medium boots without a server; nil: it needs one
	told    sync.Once                         // why it needs one
	kept    *rundir.KeptMark                  // where the agent notes that this boot came up; nil: nowhere

	answer            api.HelloResponse
	manifestBytes     []byte
	manifestSignature []byte

	modules    *kmod.Loader
	all        []link.NIC // adapters with a driver
	nics       []link.NIC // those with a link
	lease      link.Lease
	assignment atomic.Pointer[fleet.Assignment] // after hello
	manifest   image.Manifest
	pack       []byte             // the boot pack's map, verified; nil: none
	sources    []bootfiles.Source // of the manifest and the map: the first one had the manifest
	device     *blockapi.Process
	lowered    bool                // the read-only root is mounted by itself
	runFiles   []string            // that were put into /run
	former     []rundir.FormerRoot // roots that this one replaces
	stale      []string            // files in /run of the boot before, which this one may not have
	extensions extension.State
	diskWait   time.Duration // see the constant
	disks      *diskFinder   // nil: the group has nothing on a disk
	cache      *cacheSearch  // nil: the group has no cache on a disk, or the root is not to be attached yet
	// closed when the daemons got the cache's disk, or know that there is none; nil: they were started with it
	handed     chan struct{}
	writes     string // what takes the writes of this boot
	parts      Parts
	writeLayer Writable                  // nil: none was tried yet
	telling    sync.Mutex                // of begun: the cache's disk is told of beside the phases
	begun      map[trace.Stage]time.Time // for the console
}

// Run is the role of PID 1. It returns only when the machine is rebooting.
func Run(release string, parts Parts) int {
	m := &machine{
		release: release,
		parts:   parts,
		at:      initramfsPlaces(),
		started: time.Now(),
		origin:  rundir.Monotonic(),
		begun:   map[trace.Stage]time.Time{},

		diskWait: diskWait,
	}
	err := m.early()
	m.console = openConsole()
	m.console.logf("Pando %s", release)
	m.report = control.NewReporter(m.post)
	defer func() {
		if r := recover(); r != nil {
			m.console.print(logCritical, fmt.Sprintf("init panics: %v\n%s", r, debug.Stack()))
			m.reboot(finalDelay)
		}
	}()
	if err != nil {
		m.giveUp("prepare the initramfs", err)
	}
	if err := m.readTrust(); err != nil {
		m.giveUp("read what the server sent along", err)
	}
	m.boot()
	m.reboot(0)
	return 1
}

// boot runs the phases. It returns when the boot is stuck; when all goes well the image's init replaces it.
func (m *machine) boot() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go m.report.Run(ctx)
	m.event(trace.Event{Stage: trace.Init, Kind: trace.End, Message: m.greeting(),
		Attrs: map[string]string{trace.AttrKernel: m.origin.String()}})
	r := Runner{Phases: m.phases(), Report: m.event, RebootAfter: m.rebootAfter}
	err := r.Run(ctx)
	if err == nil {
		m.flush(switchFlush)
		cancel()
		m.collect(switchFlush)
		err = m.execInit()
		m.event(trace.Event{Stage: trace.SwitchRoot, Kind: trace.Fail, Attempt: 1, Message: err.Error(),
			Hint: "the image's init does not start: is it for this architecture, and complete?"})
		time.Sleep(finalDelay)
	}
	cancel() // a report that hangs would hold up the last one
	m.flush(rebootFlush)
}

// phases is the boot, in order.
func (m *machine) phases() []Phase {
	return []Phase{
		{Stage: trace.Modules, Run: m.loadModules,
			Hint: "is the kernel's modules package in the image? build it anew"},
		{Stage: trace.Link, Run: m.waitLink, Back: trace.Modules,
			Hint: "check cable, switch port and VLAN; `pando doctor` names adapters without a driver"},
		{Stage: trace.Address, Run: m.getAddress, Back: trace.Link,
			Hint: "is a DHCP server on this network? run `pando doctor` on the server"},
		{Stage: trace.Hello, Run: m.hello, Back: trace.Address,
			Hint: "is `pando serve` running, and is its port 8443 open in the firewall?"},
		{Stage: trace.Manifest, Run: m.fetchManifest, Back: trace.Address,
			Hint: "is `pando serve` running, and is its port 8480 open in the firewall?"},
		{Stage: trace.Device, Run: m.attachDevice,
			Hint: "is `pando serve` running? `pando image list` shows whether the version is whole"},
		{Stage: trace.Root, Run: m.mountRoot,
			Hint: "reads of the root wait for a server: is `pando serve` running?"},
		{Stage: trace.Config, Run: m.configure,
			Hint: "is the writable memory of the node large enough (write limit of its group)?"},
		{Stage: trace.SwitchRoot, Run: m.prepareSwitch,
			Hint: "does the image have systemd (/sbin/init)?"},
	}
}

// assigned is what hello brought, without content before.
func (m *machine) assigned() fleet.Assignment {
	if a := m.assignment.Load(); a != nil {
		return *a
	}
	return fleet.Assignment{}
}

// event stamps an event, prints it and queues it for the server.
func (m *machine) event(e trace.Event) {
	e.Boot, e.MAC, e.Node = m.bootID(), m.config.MAC, m.assigned().Node
	e.Offset = time.Since(m.started)
	if e.Kind == trace.End {
		e.Bytes = m.received()
	}
	m.console.show(e, m.took(e))
	m.report.Add(e)
	if e.Kind == trace.Fail {
		m.channel.failed.Store(true)
		m.report.Wake()
	}
}

// took is for how long the stage of an event has been worked on.
func (m *machine) took(e trace.Event) time.Duration {
	m.telling.Lock()
	defer m.telling.Unlock()
	if e.Kind == trace.Begin {
		m.begun[e.Stage] = time.Now()
	}
	if t, ok := m.begun[e.Stage]; ok {
		return time.Since(t)
	}
	return e.Offset
}

// received is what the block daemon has got so far, by source; nil before there is one.
func (m *machine) received() map[string]int64 {
	if m.device == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	s, err := blockapi.Client{Socket: filepath.Join(m.at.block, blockapi.Socket)}.Status(ctx, 0)
	if err != nil {
		return nil // the agent tells later; a boot does not wait for figures
	}
	return s.Bytes
}

func (m *machine) readTrust() error {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	m.cmd = kmod.ParseCommandLine(string(line))
	if m.config, err = readBootConfig(bootConfigFile); err != nil {
		return err
	}
	if m.config.MAC.IsZero() {
		m.config.MAC = m.cmd.MAC
	}
	m.control, err = control.New(m.config.Control, m.config.ServerKey, nil)
	return err
}

func (m *machine) greeting() string {
	if m.config.Medium != "" {
		return fmt.Sprintf("Pando %s, from a boot medium with %s", m.release, m.config.Medium.Short())
	}
	return fmt.Sprintf("Pando %s, boot %s", m.release, m.config.Boot)
}

func (m *machine) rebootAfter() time.Duration {
	if d := m.assigned().RebootAfter; d != 0 {
		return d
	}
	return m.config.RebootAfter
}

// giveUp is for what cannot be reported, because it comes before the server is known.
func (m *machine) giveUp(what string, err error) {
	m.console.print(logCritical, fmt.Sprintf("init FAILED to %s\n  what:  %v\n  to do: the initramfs that the "+
		"server sent is not whole; look at the server's log\n  now:   rebooting in %s", what, err, finalDelay))
	m.reboot(finalDelay)
}

// reboot restarts the machine, after a time in which a person can read why, unless it must never be.
func (m *machine) reboot(after time.Duration) {
	time.Sleep(after)
	for m.rebootAfter() < 0 {
		m.console.print(logCritical, waiting)
		time.Sleep(time.Hour)
	}
	m.console.print(logCritical, "rebooting")
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // the kernel restarts the machine under us
}
