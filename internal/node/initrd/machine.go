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

// machine is one boot: the parts that its phases are made of. A part keeps what its own phase needs when it is tried
// again. What later phases need, a phase returns, and the list of phases passes it on.
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

// newMachine is a boot that begins now.
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

// timeline reports what the phases do: on the console, and to the server as soon as there is a way to it. It knows who
// the node is in this boot.
type timeline struct {
	release string
	started time.Time     // zero of the offsets
	origin  time.Duration // the same on CLOCK_MONOTONIC, for the agent
	console *console
	report  *control.Reporter
	config  api.BootConfig
	control *control.Client
	channel channel

	begin      atomic.Pointer[api.BeginResponse] // of a boot medium, when a server answered
	assignment atomic.Pointer[fleet.Assignment]  // once the node has registered

	telling sync.Mutex                // of begun: the search for the cache's disk reports beside the phases
	begun   map[trace.Stage]time.Time // for the console

	received func() map[string]int64 // bytes that the root's device received, by source
}

// drivers loads kernel modules until the adapter that booted is there.
type drivers struct {
	cmd      kmod.CommandLine
	modules  *kmod.Loader              // nil: none were loaded yet
	failed   error                     // of the devices' drivers
	findDisk func(ctx context.Context) // begins to look for the cache's disk, whose drivers are loaded beside

	timeline *timeline
}

// network waits for a link, and gets an address.
type network struct {
	lease    link.Lease // the one at work; without an address: none yet
	lastBoot findLastBoot

	timeline *timeline
}

// findLastBoot returns what a machine with such adapters may boot without a server; nil: it has to go on looking for
// one.
type findLastBoot func(ctx context.Context, adapters []link.NIC) *lastboot.Boot

// registration redeems the boot's token for a session and an assignment.
type registration struct {
	nonce    string          // with which it may be sent again when its answer was lost
	session  *Session        // once it is redeemed
	known    *fleet.Hardware // of a machine that runs: what it was when it started; nil: it is read
	lastBoot findLastBoot

	timeline *timeline
}

// fallback boots a machine that was started from its boot medium without a server, as it booted before.
type fallback struct {
	offline *lastboot.Boot   // what it boots; nil: it needs a server
	told    sync.Once        // logs once why it needs one
	kept    *rundir.KeptMark // where the agent notes that this boot came up; nil: nowhere

	timeline  *timeline
	cacheDisk *cacheDisk // which has the records of boots
}

// version fetches and verifies the description of the assigned version, and the map of its boot pack.
type version struct {
	timeline *timeline
}

// cacheDisk finds the disk of the node's cache, beside the phases.
type cacheDisk struct {
	diskWait time.Duration // see the constant
	disks    *diskFinder   // nil: the group has nothing on a disk
	cache    *cacheSearch  // nil: the group has no cache on a disk, or the root is not to be attached yet
	// closed when the daemons got the cache's disk, or know that there is none; nil: they were started with it
	handed  chan struct{}
	running bool // the machine boots from what runs on it, and looks for no disks

	timeline *timeline
	loader   func() (*kmod.Loader, error) // of drivers of disks
}

// rootDevice starts the daemons behind the root's block device.
type rootDevice struct {
	at     places
	cgroup string            // of the daemons; "": this process's
	device *blockapi.Process // nil: none was started yet
	// completes a configuration by the node's cache, and says what of it is worth telling
	useCache func(ctx context.Context, sys string, s *Session, c *blockapi.Config) string

	timeline *timeline
}

// rootMount mounts the root and what takes the node's writes.
type rootMount struct {
	at          places
	lowered     bool // the read-only root is mounted by itself
	newWritable func() Writable
	writeLayer  Writable // nil: none was tried yet
}

// settings makes the root this node's: config files, extensions, units, and what the agent has to know.
type settings struct {
	at        places
	cgroup    string // of the daemons of extensions; "": this process's
	unitFiles func(nic int, rebootAfter time.Duration) []fleet.File
	former    []rundir.FormerRoot // roots that this one replaces
	stale     []string            // files in /run of the boot before, which this one may not have

	timeline *timeline
}
