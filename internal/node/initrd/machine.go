package initrd

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/fleet"
	"pando/internal/kmod"
	"pando/internal/lastboot"
	"pando/internal/link"
	"pando/internal/rundir"
	"pando/internal/trace"
)

// machine is one boot: the parts that its phases use. A part keeps the state that its own phase needs at another
// attempt. The result of a phase goes to later phases through the list of phases.
type machine struct {
	timeline     *timeline
	drivers      *drivers
	network      *network
	registration *registration
	fallback     *fallback
	version      *version
	cacheDisk    *cacheDisk
	rootDevice   *rootDevice
	rootMount    *rootMount
	settings     *settings
}

// newMachine returns a boot that begins now.
func newMachine(release string, at places, parts Parts) *machine {
	l := &timeline{
		release: release,
		started: time.Now(),
		origin:  rundir.Monotonic(),
		console: &console{kmsg: io.Discard},
		begun:   map[trace.Stage]time.Time{},
	}
	l.report = control.NewReporter(l.post)
	d := &drivers{timeline: l}
	k := &cacheDisk{diskWait: diskWait, timeline: l, loader: d.diskLoader}
	d.findDisk = k.findDisk
	f := &fallback{timeline: l, cacheDisk: k}
	device := &rootDevice{at: at, timeline: l, useCache: k.useCache}
	l.received = device.received
	return &machine{
		timeline:     l,
		drivers:      d,
		network:      &network{timeline: l, lastBoot: f.offlineBoot},
		registration: &registration{timeline: l, lastBoot: f.offlineBoot},
		fallback:     f,
		version:      &version{timeline: l},
		cacheDisk:    k,
		rootDevice:   device,
		rootMount: &rootMount{at: at, newWritable: func() Writable {
			return parts.Writable(at.lower, at.upper, at.root, k.findDevice, l.event)
		}},
		settings: &settings{at: at, timeline: l, unitFiles: parts.RunFiles},
	}
}

// timeline reports the phases on the console, and to the server once it can be reached. It knows the node's identity
// in this boot.
type timeline struct {
	release string
	started time.Time     // offset 0 of the timeline
	origin  time.Duration // the same moment on CLOCK_MONOTONIC, for the agent
	console *console
	report  *control.Reporter
	config  api.BootConfig
	control *control.Client
	channel channel

	begin      atomic.Pointer[api.BeginResponse] // of a boot from a medium, once a server answered
	assignment atomic.Pointer[fleet.Assignment]  // once the node has registered

	telling sync.Mutex                // guards begun, because the search for the cache disk reports in the background
	begun   map[trace.Stage]time.Time // when each stage began

	received func() map[string]int64 // bytes that the root's device has received, by source
}

// drivers loads kernel modules until the adapter that the firmware booted from appears.
type drivers struct {
	cmd      kmod.CommandLine
	modules  *kmod.Loader              // nil: none loaded yet
	failed   error                     // why drivers of devices could not be loaded
	findDisk func(ctx context.Context) // starts the background search for the cache disk

	timeline *timeline
}

// network waits for a link and gets an address.
type network struct {
	lease    link.Lease // the lease in use; without an address: none yet
	lastBoot findLastBoot

	timeline *timeline
}

// findLastBoot returns a kept boot that a machine with these adapters may repeat without a server. It returns nil if
// there is none, or if it is too early to give up on a server.
type findLastBoot func(ctx context.Context, adapters []link.NIC) *lastboot.Boot

// registration exchanges the boot's token for a session and an assignment.
type registration struct {
	nonce    string          // identifies a repeated request whose answer was lost
	session  *Session        // nil before registration
	known    *fleet.Hardware // before a soft reboot: the hardware as read when the machine started; nil: read it
	lastBoot findLastBoot

	timeline *timeline
}

// fallback repeats the last boot on a machine that started from its boot medium and finds no server.
type fallback struct {
	offline *lastboot.Boot   // the boot to repeat; nil: the machine needs a server
	told    sync.Once        // logs once why the machine needs a server
	kept    *rundir.KeptMark // where the agent records that this boot came up; nil: nowhere

	timeline  *timeline
	cacheDisk *cacheDisk // has the records of boots
}

// version fetches and verifies the assigned version's manifest and the map of its boot pack.
type version struct {
	timeline *timeline
}

// cacheDisk finds the disk of the node's cache, in the background.
type cacheDisk struct {
	diskWait time.Duration // the constant diskWait, or less in tests
	disks    *diskFinder   // nil: the group uses no disk
	cache    *cacheSearch  // nil: no cache on a disk, or the root is not attached yet
	// closed when the daemons got the cache disk, or know that there is none; nil: they were started with the disk
	handed  chan struct{}
	running bool // a soft reboot: do not search for disks

	timeline *timeline
	loader   func() (*kmod.Loader, error) // for the drivers of disks
}

// rootDevice starts the daemons behind the root's block device.
type rootDevice struct {
	at     places
	cgroup string            // control group of the daemons; "": that of this process
	device *blockapi.Process // nil: not started yet
	// adds the node's cache to a configuration, and returns the end of the phase's message
	useCache func(ctx context.Context, sys string, s *Session, c *blockapi.Config) string

	timeline *timeline
}

// rootMount mounts the root and its write layer.
type rootMount struct {
	at          places
	lowered     bool // the read-only root is mounted without an overlay
	newWritable func() Writable
	writeLayer  Writable // nil: not tried yet
}

// settings writes what makes the root this node's: config files, extensions, units, and the session file for the
// agent.
type settings struct {
	at        places
	cgroup    string // control group of the extensions' daemons; "": that of this process
	unitFiles func(nic int, rebootAfter time.Duration) []fleet.File
	former    []rundir.FormerRoot // previous roots, which the agent detaches later
	stale     []string            // files in /run of the previous boot; those that this boot does not have are removed

	timeline *timeline
}
