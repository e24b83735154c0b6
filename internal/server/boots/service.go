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
	"pando/internal/chunk"
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

// packSource returns the boot packs that a node is sent.
type packSource interface {
	// ForBoot returns the pack of a version for a hardware class, nil if there is none.
	ForBoot(version fleet.Digest, class string) *fleet.PackRef
	// ForExtensions returns the packs of extensions.
	ForExtensions(list []fleet.Extension) map[fleet.Digest]fleet.PackRef
}

// recordingSource returns until when a node records what it reads.
type recordingSource interface{ Until(node string) string }

// journalSource makes the config files and the key by which a node sends its journal.
type journalSource interface {
	Files(boot fleet.BootID, at netip.Addr) (files, secrets []fleet.File, err error)
}

// Registry is the record of machines and their boots.
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
	Shared    *initrd.Shared
	BootFiles bootFiles

	Packs      packSource
	Recordings recordingSource
	Journals   journalSource

	// StateFiles makes the config files that tell a node what to do with its state.
	StateFiles     func(context.Context, registry.Boot, fleet.Node, fleet.Group) ([]fleet.File, error)
	ConsoleFiles   func(server netip.Addr) []fleet.File // make a node send its kernel's messages to the server
	Stores         func() []string                      // base URLs of object stores that nodes try before this server
	Servers        []string                             // base URLs of further servers
	GivesAddresses func() bool                          // whether nodes get their addresses from this server
	DHCPOff        func() bool                          // whether no DHCP packet is seen at all
	DHCPStopped    func() string                        // why this server gives no addresses now; "": it does
	Uploads        *sockopt.Scheduler
	LastSeen       *lastseen.Times

	Release string
	Now     func() time.Time
	Log     *slog.Logger
}

// Service answers machines from their first DHCP packet until they are registered. It only wires its parts, each of
// which answers one kind of request.
type Service struct {
	*addresses
	*assigner
	*sender
	*refuser
	*packets
	*loaders
	*tokens
	*scripts
	*verifiedLoads
	*registrar
	*nextBoots
	*mediumBoots
}

// New returns a service.
func New(c Config) *Service {
	seen := cmp.Or(c.LastSeen, &lastseen.Times{})
	a := &addresses{seen: &exchanges{}, Neighbour: neighbour, dhcpOff: c.DHCPOff, now: c.Now}
	assign := &assigner{
		registry: c.Registry, versions: c.Versions, planner: c.Planner, ports: c.Ports, keys: c.Keys, packs: c.Packs,
		recordings: c.Recordings, journals: c.Journals, stateFiles: c.StateFiles, consoleFiles: c.ConsoleFiles,
		stores: c.Stores, servers: c.Servers, now: c.Now,
	}
	send := &sender{boots: c.Boots, admission: c.Admission, uploads: c.Uploads, now: c.Now}
	refuse := &refuser{boots: c.Boots, lines: ratelimit.New(refusalBurst, refusalRate), now: c.Now, log: c.Log}
	p := &packets{
		registry: c.Registry, boots: c.Boots, discovery: c.Discovery, addresses: a, refuser: refuse, lastSeen: seen,
		givesAddresses: c.GivesAddresses, dhcpStopped: c.DHCPStopped, now: c.Now, log: c.Log,
	}
	t := &tokens{
		boots: c.Boots, planner: c.Planner, versions: c.Versions, store: c.Store, programs: c.Programs, disks: c.Disks,
		ports: c.Ports, keys: c.Keys, sender: send, release: c.Release, now: c.Now,
	}
	verified := &verifiedLoads{
		registry: c.Registry, asked: map[fleet.BootID]bool{},
		boots: c.Boots, store: c.Store, shared: c.Shared, programs: c.Programs, disks: c.Disks, admission: c.Admission,
		members: c.Planner, now: c.Now, log: c.Log, reads: map[chunk.ID]bool{},
	}
	script := &scripts{
		registry: c.Registry, boots: c.Boots, planner: c.Planner, discovery: c.Discovery, admission: c.Admission,
		disks: c.Disks, ports: c.Ports, addresses: a, refuser: refuse, verified: verified, now: c.Now, log: c.Log,
	}
	return &Service{
		addresses: a, assigner: assign, sender: send, refuser: refuse, packets: p, tokens: t, scripts: script,
		verifiedLoads: verified,
		loaders: &loaders{
			files: c.BootFiles, registry: c.Registry, boots: c.Boots, ports: c.Ports, packets: p, sender: send,
		},
		registrar: &registrar{
			registry: c.Registry, boots: c.Boots, planner: c.Planner, discovery: c.Discovery, admission: c.Admission,
			configs: c.Configs, keys: c.Keys, addresses: a, assigner: assign, lastSeen: seen, packs: c.Packs,
			journals: c.Journals, now: c.Now,
		},
		nextBoots: &nextBoots{
			registry: c.Registry, store: c.Store, boots: c.Boots, planner: c.Planner, admission: c.Admission,
			nodeAuth: c.NodeAuth, scripts: script, tokens: t, now: c.Now,
		},
		mediumBoots: &mediumBoots{
			boots: c.Boots, planner: c.Planner, versions: c.Versions, scripts: script, addresses: a, now: c.Now,
		},
	}
}
