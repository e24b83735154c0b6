package nodeapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"pando/internal/bootlog"
	"pando/internal/bootplan"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/lastseen"
	"pando/internal/nodeauth"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Booter answers machines that boot. Running nodes get some replies in the same form.
type Booter interface {
	// NextPlan returns the requesting boot, its locked log entry, and the plan of the node's next boot.
	NextPlan(w http.ResponseWriter, r *http.Request, early bool) (registry.Boot, *bootlog.Entry, bootplan.Plan, error)
	// Assign makes the signed assignment of a boot.
	Assign(ctx context.Context, b registry.Boot, n nodeconfig.Node, set nodeconfig.Set, pack *fleet.PackRef,
		at netip.Addr) (bytes, signature []byte, err error)
	// Extensions returns the extensions to mount over a version, and errors for those that cannot be.
	Extensions(ctx context.Context, g fleet.Group, base fleet.Digest) ([]fleet.Extension, []error, error)
	// SawEvents takes events of a boot: its node may serve kernel and initramfs to others from now on, or no more.
	SawEvents(ctx context.Context, b registry.Boot, events []trace.Event)
}

// packSource chooses the boot pack of a node.
type packSource interface {
	ForBoot(version fleet.Digest, class string) *fleet.PackRef
}

// consoleLog keeps kernel messages.
type consoleLog interface {
	AddReported(ctx context.Context, boot fleet.BootID, text string) error
	AddPstore(ctx context.Context, b registry.Boot, text string) error
}

// Config is what a Service needs.
type Config struct {
	Registry  *registry.Registry
	Planner   *bootplan.Planner
	NodeAuth  *nodeauth.Checker
	Boots     *bootlog.Boots
	Discovery *discovery.Machines
	Commands  *nodecommand.Queue
	LastSeen  *lastseen.Times
	Configs   *nodeconfig.Renderer

	Boot     Booter
	Packs    packSource
	Consoles consoleLog
	// KeepSenders and KeepState record parts of a node's status that outlive it.
	KeepSenders func(context.Context, registry.Boot, map[string]int64) error
	KeepState   func(context.Context, registry.Boot, string) error

	Now func() time.Time
	Log *slog.Logger
}

// Service answers running nodes.
type Service struct {
	registry  *registry.Registry
	planner   *bootplan.Planner
	nodeAuth  *nodeauth.Checker
	boots     *bootlog.Boots
	discovery *discovery.Machines
	commands  *nodecommand.Queue
	lastSeen  *lastseen.Times
	configs   *nodeconfig.Renderer

	boot        Booter
	packs       packSource
	consoles    consoleLog
	keepSenders func(context.Context, registry.Boot, map[string]int64) error
	keepState   func(context.Context, registry.Boot, string) error

	now func() time.Time
	log *slog.Logger

	levels levels
}

// New returns a Service.
func New(c Config) *Service {
	return &Service{
		registry: c.Registry, planner: c.Planner, nodeAuth: c.NodeAuth, boots: c.Boots, discovery: c.Discovery,
		commands: c.Commands, lastSeen: c.LastSeen, configs: c.Configs, boot: c.Boot, packs: c.Packs,
		consoles:    c.Consoles,
		keepSenders: c.KeepSenders, keepState: c.KeepState, now: c.Now, log: c.Log,
	}
}
