package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"pando/internal/admission"
	"pando/internal/bootloader"
	"pando/internal/bootlog"
	"pando/internal/bootmethod"
	"pando/internal/bootplan"
	"pando/internal/dhcp"
	"pando/internal/discovery"
	"pando/internal/diskreserve"
	"pando/internal/endpoint"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/hint"
	"pando/internal/hooks"
	"pando/internal/identity"
	"pando/internal/initrd"
	"pando/internal/lastseen"
	"pando/internal/loglimit"
	"pando/internal/metrics"
	"pando/internal/nodeauth"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/openid"
	"pando/internal/registry"
	"pando/internal/server/access"
	"pando/internal/server/bootmedia"
	"pando/internal/server/boots"
	"pando/internal/server/history"
	"pando/internal/server/images"
	"pando/internal/server/logs"
	sitemetrics "pando/internal/server/metrics"
	"pando/internal/server/nodeapi"
	"pando/internal/server/objects"
	"pando/internal/server/packs"
	"pando/internal/server/power"
	"pando/internal/server/rollouts"
	"pando/internal/server/state"
	"pando/internal/server/volumes"
	"pando/internal/sockopt"
	"pando/internal/store"
	"pando/internal/swarm/tracker"
	"pando/internal/versions"
)

// Server is a site's server. See the package comment.
type Server struct {
	cfg     Config
	log     *slog.Logger
	now     func() time.Time
	started time.Time

	lock      *os.File
	keys      identity.Keys
	registry  *registry.Registry
	store     *store.Dir
	versions  *versions.Cache
	signer    *images.Signer
	loaders   *bootloader.Set
	agents    initrd.Programs
	traces    *packs.Traces
	packs     *packs.Maker
	packAPI   *packs.API
	collector *objects.Collector
	objects   *objects.Handler
	storeAPI  *objects.API
	imageAPI  *images.API
	disks     *initrd.DiskDrivers

	boots      *bootlog.Boots
	lastSeen   *lastseen.Times
	commands   *nodecommand.Queue
	waker      *nodecommand.Waker
	volumes    *volumes.Service
	state      *state.Service
	nodeAPI    *nodeapi.Service // answers running nodes
	recordings *packs.Recordings
	rollouts   *rollouts.Runner
	methods    *bootmethod.Chooser
	power      *power.Controller
	configs    *nodeconfig.Renderer
	journals   *logs.Journals
	consoles   *logs.Consoles
	admission  *admission.Queue
	media      *bootmedia.Service
	access     *access.Guard
	faults     *history.Faults
	metrics    *metrics.Site
	lookout    *sitemetrics.Lookout
	sent       atomic.Int64 // bytes sent to nodes by HTTP and TFTP
	sampler    *history.Sampler
	senders    *history.Senders
	swarm      *tracker.Server
	uploads    sockopt.Scheduler
	discovery  *discovery.Machines
	booter     *boots.Service // answers machines that boot

	listeners *listeners // nil before Listen
	dhcp      *dhcp.Server
	ports     *endpoint.Ports
	planner   *bootplan.Planner
	nodeAuth  *nodeauth.Checker

	dashboardPort uint16
	web           *identity.WebCertificate // nil: no TLS there
}

// New opens the data directory, and makes it at the first start. It does not listen yet.
func New(ctx context.Context, c Config) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:       c,
		admission: admission.New(c.links(), c.Now),
		log:       slog.New(loglimit.New(c.Log.Handler(), c.Now)),
		now:       c.Now,
		started:   c.Now(),
		ports:     &endpoint.Ports{},
		lastSeen:  &lastseen.Times{Since: c.Now()},
	}
	s.metrics = metrics.New(
		metrics.Options{
			Release: c.Release,
			Look:    func(ctx context.Context) (metrics.Look, error) { return s.lookout.Look(ctx) },
			Log:     c.Log,
		},
	)
	s.log = slog.New(s.metrics.Log(c.Log.Handler()))
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open(ctx context.Context) (err error) {
	if err := s.openRecords(ctx); err != nil {
		return err
	}
	if err := s.findPrograms(); err != nil {
		return err
	}
	s.faults = history.NewFaults(s.registry, s.lastSeen.Seen, s.now)
	s.planner = bootplan.New(s.registry, s.versions, s.agents, s.cfg.RebootAfter)
	s.nodeAuth = nodeauth.New(s.registry, s.now)
	s.waker = nodecommand.NewWaker(s.registry, s.log)
	s.commands = nodecommand.NewQueue(s.waker.Boot)
	s.access = s.newAccess()
	if s.recordings, err = packs.OpenRecordings(s.cfg.Dir, s.log); err != nil {
		return err
	}
	s.traces = packs.NewTraces(s.cfg.Dir)
	s.packs = packs.New(packs.Options{Store: s.store, Registry: s.registry, Traces: s.traces, Ring: s.keys.Ring,
		Manifest: s.versions.Manifest, LastSeen: s.lastSeen.Seen, Now: s.now, Log: s.log})
	s.packAPI = packs.NewAPI(s.packs, s.recordings)
	s.signer = images.NewSigner(s.keys.Ring, s.store, s.versions.Forget, s.log)
	s.collector = objects.NewCollector(
		objects.CollectorOptions{Store: s.store, Registry: s.registry, Traces: s.traces, Dir: s.cfg.Dir,
			Now: s.now, LastSeen: s.lastSeen.Seen, Log: s.log},
	)
	s.storeAPI = objects.NewAPI(s.collector, s.keys.Ring)
	s.methods = bootmethod.New(s.registry, s.store, s.versions, s.cfg.Release, s.nextVersion)
	s.wireActions()
	if s.volumes, err = volumes.Open(volumes.Options{Dir: s.cfg.Dir, Registry: s.registry, Nodes: s.nodeAuth,
		Port: func() uint16 { return s.ports.Data }, Now: s.now, Log: s.log}); err != nil {
		return err
	}
	s.state = state.New(
		state.Options{Dir: s.cfg.Dir, Registry: s.registry, Volumes: s.volumes.Dir(), LastSeen: s.lastSeen.Seen,
			Auth: s.nodeAuth, Members: s.planner, Now: s.now, Log: s.log},
	)
	s.configs = nodeconfig.New(s.keys, func() []dhcp.Subnet {
		if !s.givesAddresses() {
			return nil
		}
		return s.cfg.DHCP.Subnets
	}, s.cfg.Servers)
	s.consoles = logs.NewConsoles(s.registry, s.bootAt, s.now, s.log)
	if s.journals, err = s.openJournals(); err != nil {
		return err
	}
	s.imageAPI = images.NewAPI(images.Options{Store: s.store, Registry: s.registry, LastSeen: s.lastSeen.Seen,
		Signer: s.signer, ServerKey: s.keys.ServerPublic(), Collector: s.collector, NewVersion: s.packs.Look,
		Wake: s.waker.Named, LogsKept: s.journals.Kept(),
		Now: s.now, Log: s.log})
	s.disks = initrd.NewDiskDrivers(s.store, s.log)
	s.boots = bootlog.New(s.registry, s.now, s.log)
	s.wireBoot()
	s.swarm = objects.NewTracker(s.cfg.uplink(), s.admission.NodeLink, s.store, s.log)
	s.swarm.Authenticated = func(from netip.Addr) bool { return s.lastSeen.Reports(from, s.now()) }
	s.objects = objects.NewHandler(objects.HandlerOptions{Store: s.store, Tracker: s.swarm, Uploads: &s.uploads,
		Direct: s.cfg.Direct, Kernels: s.booter})
	s.admission.Busy = s.swarm.Busy
	s.lookout = s.newLookout()
	s.sampler = history.NewSampler(s.registry, &s.sent, s.cfg.sampleLeast, s.now, s.log)
	s.senders = history.NewSenders(s.registry, func(a netip.Addr) string {
		b, _ := s.bootAt(a)
		return b.Node
	})
	s.wireNodes()
	return errors.Join(s.boots.Restore(ctx, s.versions.Kernel), s.booter.RestoreLinks(ctx))
}

// openRecords locks the data directory and opens its keys, store and registry.
func (s *Server) openRecords(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if s.lock, err = lockDir(s.cfg.Dir); err != nil {
		return err
	}
	if s.keys, err = identity.Open(filepath.Join(s.cfg.Dir, "keys")); err != nil {
		return err
	}
	if s.store = s.cfg.Store; s.store == nil {
		if s.store, err = store.OpenDir(filepath.Join(s.cfg.Dir, "store")); err != nil {
			return err
		}
	}
	s.versions = versions.New(s.store, s.keys.Ring)
	if s.registry, err = registry.Open(ctx,
		registry.Options{Dir: s.cfg.Dir, Log: s.log, MaxEvents: s.cfg.MaxEvents,
			Reserve: diskreserve.New(s.cfg.Dir), Now: s.now}); err != nil {
		return err
	}
	return nil
}

// openJournals wires the journals of nodes.
func (s *Server) openJournals() (*logs.Journals, error) {
	return logs.Open(logs.Config{
		Mode: s.cfg.Logs, Dir: filepath.Join(s.cfg.Dir, "journals"), Size: s.cfg.LogsSize, NodeSize: s.cfg.LogsNodeSize,
		Registry: s.registry, Store: s.store, Keys: s.keys, Log: s.log,
		Port: func() uint16 { return s.ports.Control },
		Member: func(ctx context.Context, mac fleet.MAC) (fleet.Node, error) {
			n, _, err := s.planner.Member(ctx, mac)
			return n, err
		},
	})
}

// bootAt returns the latest boot of the machine with address `from`, if that boot is in memory.
func (s *Server) bootAt(from netip.Addr) (registry.Boot, bool) {
	c := s.boots.At(from)
	if c == nil {
		return registry.Boot{}, false
	}
	c.Lock()
	defer c.Unlock()
	return c.Boot, true
}

// netconsolePort is the port that receives kernel messages, 0 if there is none.
func (s *Server) netconsolePort() int {
	if s.listeners == nil || s.listeners.netconsole == nil {
		return 0
	}
	return s.listeners.netconsole.LocalAddr().(*net.UDPAddr).Port
}

// nextVersion returns what a node's next boot will run.
func (s *Server) nextVersion(ctx context.Context, n fleet.Node) (bootmethod.Next, error) {
	p, err := s.planner.Plan(ctx, n, fleet.Hardware{})
	if err != nil {
		return bootmethod.Next{}, err
	}
	return bootmethod.Next{Group: p.Group, Version: p.Version, Manifest: p.Manifest, Args: p.KernelArgs()}, nil
}

// wireActions wires the parts that switch and reboot nodes.
func (s *Server) wireActions() {
	s.rollouts = rollouts.New(rollouts.Config{
		Registry: s.registry, Store: s.store, Versions: s.versions, Commands: s.commands, Methods: s.methods,
		Views: fleetview.Nodes{Registry: s.registry, LastSeen: s.lastSeen.Seen},
		Hooks: filepath.Join(s.cfg.Dir, hooks.Dir), Now: s.now, Log: s.log,
		Slower: func(ctx context.Context, group string, before, after fleet.Digest) (string, error) {
			return images.Slower(ctx, s.registry, group, before, after)
		},
	})
	s.power = power.New(s.powerConfig())
}

// powerConfig returns the configuration of package power.
func (s *Server) powerConfig() power.Config {
	return power.Config{
		Registry: s.registry, Keys: s.keys, Commands: s.commands, Methods: s.methods, LastSeen: s.lastSeen.Seen,
		Hooks: filepath.Join(s.cfg.Dir, hooks.Dir), Started: s.started, Now: s.now, Log: s.log,
	}
}

// newAccess wires the checks of callers of the operator's API.
func (s *Server) newAccess() *access.Guard {
	c := access.Config{
		Registry: s.registry,
		Key:      s.keys.ServerPublic(),
		Rate:     s.cfg.APIRate,
		Refused:  s.metrics.Refused,
		Now:      s.now,
		Log:      s.log,
	}
	if s.cfg.OpenID != nil {
		c.Provider = openid.New(*s.cfg.OpenID, s.now)
	}
	return access.New(c)
}

// findPrograms finds the files that nodes need before they have a root: boot files for firmware, and agents.
func (s *Server) findPrograms() (err error) {
	program, _ := os.Executable() // without it there is Debian's directory
	dirs := bootloader.Dirs(s.cfg.BootFiles, program)
	if s.loaders, err = bootloader.Open(filepath.Join(s.cfg.Dir, bootloader.ImportDir), dirs...); err != nil {
		s.log.Warn("a boot loader is not used", "err", err, "hint", "`pando loader list` shows what machines are sent")
	}
	if len(s.loaders.List()) == 0 {
		s.log.Warn("no boot files for firmware; only machines with iPXE in their ROM will boot",
			"dirs", strings.Join(dirs, " "),
			"hint", "install Debian's package ipxe, or name a directory with --boot-files")
	}
	if s.agents, err = initrd.FindPrograms(s.cfg.Agent, s.cfg.Dir); err != nil {
		return err
	}
	if err := s.agents.Has(runtime.GOARCH); err != nil && len(s.agents) == 0 {
		s.log.Error("no node will boot: "+err.Error(), "hint", hint.Of(err))
	}
	return nil
}

// Keys returns the site's keys. A builder in the same process signs with them.
func (s *Server) Keys() identity.Keys { return s.keys }

// Registry returns the open registry, for setup before Run.
func (s *Server) Registry() *registry.Registry { return s.registry }

// Store returns the open store.
func (s *Server) Store() *store.Dir { return s.store }

// Close closes what New and Listen opened. Run must have returned.
func (s *Server) Close() error {
	var err error
	if s.listeners != nil {
		err = s.listeners.close()
	}
	if s.registry != nil {
		err = errors.Join(err, s.registry.Close())
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// wireBoot wires the parts that answer machines that boot.
func (s *Server) wireBoot() {
	s.discovery = discovery.New(s.registry, s.lastSeen.MayRun, s.now, s.log)
	s.media = bootmedia.New(bootmedia.Options{
		Store: s.store, Registry: s.registry, Versions: s.versions, Planner: s.planner, Keys: s.keys, Agents: s.agents,
		Disks: s.disks, Ports: s.ports, Auth: s.nodeAuth, Interfaces: s.cfg.DHCP.Interfaces,
		BootFiles: cmp.Or(s.cfg.BootFiles, bootloader.PackageDir), Release: s.cfg.Release, Log: s.log,
	})
	s.booter = boots.New(boots.Config{
		Registry: s.registry, Store: s.store, Versions: s.versions, Planner: s.planner, Ports: s.ports,
		NodeAuth: s.nodeAuth,
		Boots:    s.boots, Discovery: s.discovery, Admission: s.admission, Keys: s.keys, Configs: s.configs,
		Programs: s.agents,
		Disks:    s.disks, Shared: initrd.NewShared(s.store), BootFiles: s.loaders, Packs: s.packs,
		Recordings: s.recordings, Journals: s.journals,
		StateFiles:   s.state.Files,
		ConsoleFiles: func(at netip.Addr) []fleet.File { return logs.ConsoleFiles(at, s.netconsolePort()) },
		Stores:       s.places, Servers: s.cfg.Servers, GivesAddresses: s.givesAddresses, DHCPOff: s.dhcpOff,
		DHCPStopped: s.dhcpStopped,
		Uploads:     &s.uploads, LastSeen: s.lastSeen, Release: s.cfg.Release, Now: s.now, Log: s.log,
	})
}

// wireNodes wires the parts that answer running nodes.
func (s *Server) wireNodes() {
	s.nodeAPI = nodeapi.New(nodeapi.Config{
		Registry: s.registry, Planner: s.planner, NodeAuth: s.nodeAuth, Boots: s.boots, Discovery: s.discovery,
		Commands: s.commands, LastSeen: s.lastSeen, Configs: s.configs, Boot: s.booter, Packs: s.packs,
		Consoles:    s.consoles,
		KeepSenders: s.senders.Add, KeepState: s.state.KeepReport, Now: s.now, Log: s.log,
	})
}
