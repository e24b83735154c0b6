package boots

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"time"

	"pando/internal/admission"
	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/discovery"
	"pando/internal/endpoint"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/initrd"
	"pando/internal/lastseen"
	"pando/internal/nodeauth"
	"pando/internal/nodeconfig"
	"pando/internal/ratelimit"
	"pando/internal/registry"
	"pando/internal/sockopt"
	"pando/internal/store"
	"pando/internal/versions"
)

// packSource says which boot packs a node is sent.
type packSource interface {
	// ForBoot returns the pack of a version for a hardware class, nil if there is none.
	ForBoot(version fleet.Digest, class string) *fleet.PackRef
	// ForExtensions returns the packs of extensions.
	ForExtensions(list []fleet.Extension) map[fleet.Digest]fleet.PackRef
}

// recordingSource tells until when a node records what it reads.
type recordingSource interface{ Until(node string) string }

// journalSource makes the config files and the key with which a node sends its journal.
type journalSource interface {
	Files(boot fleet.BootID, at netip.Addr) (files, secrets []fleet.File, err error)
}

// Registry is where machines and their boots are recorded.
type Registry interface {
	View(context.Context, func(*registry.Tx) error) error
	UpdateBoot(context.Context, fleet.MAC, func(*registry.Tx) error) error
	Progress(ctx context.Context, boots ...fleet.BootID) (map[fleet.BootID]registry.Progress, error)
}

// Config is what a service works with.
type Config struct {
	Registry  Registry
	Store     *store.Dir
	Versions  *versions.Cache
	Planner   *bootplan.Planner
	Ports     *endpoint.Ports
	NodeAuth  *nodeauth.Checker
	Boots     *bootlog.Boots
	Discovery *discovery.Machines
	Admission *admission.Queue
	Keys      identity.Keys
	Configs   *nodeconfig.Renderer
	Programs  initrd.Programs
	Disks     *initrd.DiskDrivers
	BootFiles Files

	Packs      packSource
	Recordings recordingSource
	Journals   journalSource

	// StateFiles makes the config files that tell a node what to do with its state.
	StateFiles     func(context.Context, registry.Boot, fleet.Node, fleet.Group) ([]fleet.File, error)
	ConsoleFiles   func(server netip.Addr) []fleet.File // that make a node send its kernel's messages here
	Stores         func() []string                      // base URLs of objects that nodes ask before this server
	Servers        []string                             // base URLs of further servers
	GivesAddresses func() bool                          // whether nodes have their addresses from this server
	DHCPOff        func() bool                          // whether no DHCP packet is seen at all
	DHCPStopped    func() string                        // why no addresses are given for now; "": they are
	Uploads        *sockopt.Scheduler
	LastSeen       *lastseen.Times

	Release string
	Now     func() time.Time
	Log     *slog.Logger
}

// Service answers machines from their first DHCP packet until they are registered.
type Service struct {
	registry  Registry
	store     *store.Dir
	versions  *versions.Cache
	planner   *bootplan.Planner
	ports     *endpoint.Ports
	nodeAuth  *nodeauth.Checker
	boots     *bootlog.Boots
	discovery *discovery.Machines
	admission *admission.Queue
	keys      identity.Keys
	configs   *nodeconfig.Renderer
	programs  initrd.Programs
	disks     *initrd.DiskDrivers
	files     Files

	packs      packSource
	recordings recordingSource
	journals   journalSource

	stateFiles     func(context.Context, registry.Boot, fleet.Node, fleet.Group) ([]fleet.File, error)
	consoleFiles   func(server netip.Addr) []fleet.File
	stores         func() []string
	servers        []string
	givesAddresses func() bool
	dhcpOff        func() bool
	dhcpStopped    func() string
	uploads        *sockopt.Scheduler
	lastSeen       *lastseen.Times

	release string
	now     func() time.Time
	log     *slog.Logger

	exchanges *exchanges
	refusals  *ratelimit.Bucket // lines of the log about addresses of which no boot is known
	Neighbour func(netip.Addr) (fleet.MAC, bool)
}

// New returns a service.
func New(c Config) *Service {
	return &Service{
		registry: c.Registry, store: c.Store, versions: c.Versions, planner: c.Planner, ports: c.Ports,
		nodeAuth: c.NodeAuth,
		boots:    c.Boots, discovery: c.Discovery, admission: c.Admission, keys: c.Keys, configs: c.Configs,
		programs: c.Programs,
		disks:    c.Disks, files: c.BootFiles, packs: c.Packs, recordings: c.Recordings, journals: c.Journals,
		stateFiles:   c.StateFiles,
		consoleFiles: c.ConsoleFiles, stores: c.Stores, servers: c.Servers, givesAddresses: c.GivesAddresses,
		dhcpOff: c.DHCPOff, dhcpStopped: c.DHCPStopped, uploads: c.Uploads,
		lastSeen: cmp.Or(c.LastSeen, &lastseen.Times{}), release: c.Release, now: c.Now, log: c.Log,
		exchanges: &exchanges{}, Neighbour: neighbour,
		refusals: ratelimit.New(refusalBurst, refusalRate),
	}
}
