package initrd

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

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

// machine is one boot: it wires the parts that the phases are made of. Each part owns what its phase learns; a later
// phase reads it there. The phases run one after another, so only what the reporter or the runner reads while a phase
// works is guarded.
type machine struct {
	*timeline
	*drivers
	*network
	*registration
	*fallback
	*version
	*cacheDisk
	*rootDevice
	*rootMount
	*settings
}

// newMachine is a boot that begins now.
func newMachine(release string, at places, parts Parts) *machine {
	m := &machine{
		timeline: &timeline{
			release: release,
			started: time.Now(),
			origin:  rundir.Monotonic(),
			console: &console{kmsg: io.Discard},
			begun:   map[trace.Stage]time.Time{},
		},
		drivers:      &drivers{},
		network:      &network{},
		registration: &registration{},
		fallback:     &fallback{},
		version:      &version{},
		cacheDisk:    &cacheDisk{diskWait: diskWait},
		rootDevice:   &rootDevice{at: at},
		rootMount:    &rootMount{parts: parts},
		settings:     &settings{unitFiles: parts.RunFiles},
	}
	l, d, n, h, f, v, k := m.timeline, m.drivers, m.network, m.registration, m.fallback, m.version, m.cacheDisk
	l.rootDevice = m.rootDevice
	l.report = control.NewReporter(l.post)
	d.timeline, d.cacheDisk = l, k
	n.timeline, n.drivers, n.fallback = l, d, f
	h.timeline, h.drivers, h.network, h.fallback = l, d, n, f
	f.timeline, f.drivers, f.network, f.registration, f.version, f.cacheDisk = l, d, n, h, v, k
	v.timeline, v.network, v.fallback = l, n, f
	k.timeline, k.drivers, k.registration, k.fallback = l, d, h, f
	m.rootDevice.timeline, m.rootDevice.network, m.rootDevice.version, m.rootDevice.cacheDisk = l, n, v, k
	m.rootMount.timeline, m.rootMount.version, m.rootMount.cacheDisk, m.rootMount.rootDevice = l, v, k, m.rootDevice
	g := m.settings
	g.timeline, g.network, g.registration, g.fallback, g.version, g.cacheDisk = l, n, h, f, v, k
	g.rootDevice, g.rootMount = m.rootDevice, m.rootMount
	return m
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

	rootDevice *rootDevice // for the bytes that it received
}

// drivers loads kernel modules until the adapter that booted is there.
type drivers struct {
	cmd     kmod.CommandLine
	modules *kmod.Loader
	all     []link.NIC // adapters with a driver

	timeline  *timeline
	cacheDisk *cacheDisk // whose drivers are loaded beside
}

// network waits for a link, and gets an address.
type network struct {
	nics  []link.NIC // adapters with a link
	lease link.Lease

	timeline *timeline
	drivers  *drivers
	fallback *fallback
}

// registration redeems the boot's token for a session and an assignment.
type registration struct {
	nonce  string // with which it may be sent again when its answer was lost
	answer api.HelloResponse
	known  *fleet.Hardware // of a machine that runs: what it was when it started; nil: it is read

	timeline *timeline
	drivers  *drivers
	network  *network
	fallback *fallback
}

// fallback boots a machine that was started from its boot medium without a server, as it booted before.
type fallback struct {
	offline *lastboot.Boot   // what it boots; nil: it needs a server
	told    sync.Once        // logs once why it needs one
	kept    *rundir.KeptMark // where the agent notes that this boot came up; nil: nowhere

	timeline     *timeline
	drivers      *drivers
	network      *network
	registration *registration
	version      *version
	cacheDisk    *cacheDisk
}

// version fetches and verifies the description of the assigned version, and the map of its boot pack.
type version struct {
	manifest          image.Manifest
	manifestBytes     []byte
	manifestSignature []byte
	pack              []byte             // the boot pack's map, verified; nil: none
	sources           []bootfiles.Source // of the manifest and the map: the first one had the manifest

	timeline *timeline
	network  *network
	fallback *fallback
}

// cacheDisk finds the disk of the node's cache, beside the phases.
type cacheDisk struct {
	diskWait time.Duration // see the constant
	disks    *diskFinder   // nil: the group has nothing on a disk
	cache    *cacheSearch  // nil: the group has no cache on a disk, or the root is not to be attached yet
	// closed when the daemons got the cache's disk, or know that there is none; nil: they were started with it
	handed chan struct{}

	timeline     *timeline
	drivers      *drivers
	registration *registration
	fallback     *fallback
}

// rootDevice starts the daemons behind the root's block device.
type rootDevice struct {
	at     places
	cgroup string // of the daemons; "": this process's
	device *blockapi.Process

	timeline  *timeline
	network   *network
	version   *version
	cacheDisk *cacheDisk
}

// rootMount mounts the root and what takes the node's writes.
type rootMount struct {
	lowered    bool // the read-only root is mounted by itself
	writes     string
	parts      Parts
	writeLayer Writable // nil: none was tried yet

	timeline   *timeline
	version    *version
	cacheDisk  *cacheDisk
	rootDevice *rootDevice
}

// settings makes the root this node's: config files, extensions, units, and what the agent has to know.
type settings struct {
	unitFiles  func(nic int) []fleet.File
	runFiles   []string            // that were put into /run
	former     []rundir.FormerRoot // roots that this one replaces
	stale      []string            // files in /run of the boot before, which this one may not have
	extensions extension.State

	timeline     *timeline
	network      *network
	registration *registration
	fallback     *fallback
	version      *version
	cacheDisk    *cacheDisk
	rootDevice   *rootDevice
	rootMount    *rootMount
}
