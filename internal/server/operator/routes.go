package operator

import (
	"context"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/bootmethod"
	"pando/internal/dhcp"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/trace"
	"pando/internal/versions"
)

// NodeData manages what the server keeps of nodes outside of the registry: state, journals, swap space.
type NodeData interface {
	// RecordPlace records where a node keeps its state. Call it before the node is renamed or deleted.
	RecordPlace(tx *registry.Tx, n fleet.Node) error
	NodeRenamed(ctx context.Context, was, is string)
	NodeDeleted(ctx context.Context, node string, at time.Time)
}

// Faults finds what is wrong with boots.
type Faults interface {
	// State returns the state of a node's latest boot. The zero node stands for a machine that is not adopted.
	State(ctx context.Context, n fleet.Node, p registry.Progress) (trace.State, error)
	// List returns the latest boots of these nodes that have a fault; nil nodes means all.
	List(ctx context.Context, nodes map[string]bool) ([]api.Boot, error)
	Of(ctx context.Context, b registry.Boot, p registry.Progress, events []trace.Event) (*api.Fault, error)
}

// Options are what the routes need.
type Options struct {
	Registry *registry.Registry
	Store    *store.Dir
	Versions *versions.Cache
	Views    fleetview.Nodes
	Configs  *nodeconfig.Renderer
	Commands *nodecommand.Queue
	Waker    *nodecommand.Waker
	Methods  *bootmethod.Chooser

	Data        NodeData
	Faults      Faults
	Compare     func(context.Context, *api.ImageDiff) error // compares two versions
	FlushEvents func(context.Context) error                 // writes the events that are still in memory
	DHCP        func(*registry.Tx) (api.DHCP, error)        // the state of the DHCP server
	Ports       func() []api.Port                           // where nodes reach the server
	Subnets     func() []dhcp.Subnet                        // in which this server gives addresses; may be none
	Loads       func() api.Loads                            // how many nodes load kernel and initrd now
	Logs        func() api.Logs                             // how journals are kept

	Release     string
	RebootAfter time.Duration // for nodes whose group does not set it
	Started     time.Time     // of the server
	Now         func() time.Time
}

// Routes returns the routes of this package.
func Routes(o Options) []httpapi.Route {
	x := extensions{o.Versions}
	return slices.Concat(
		o.siteRoutes(),
		o.nodeRoutes(x),
		o.fileRoutes(),
		bootRoutes(&bootAPI{reg: o.Registry, faults: o.Faults, flushEvents: o.FlushEvents}),
		groupRoutes(&groupAPI{reg: o.Registry, extensions: x, waker: o.Waker}),
		classRoutes(&classAPI{reg: o.Registry}),
		fleetRoutes(&fleetAPI{reg: o.Registry, extensions: x, addresses: addresses{o.Subnets, ownAddresses},
			waker: o.Waker, data: o.Data, now: o.Now}),
	)
}

func (o Options) siteRoutes() []httpapi.Route {
	site := &siteAPI{
		reg: o.Registry, views: o.Views, faults: o.Faults, release: o.Release, started: o.Started, now: o.Now,
		dhcp: o.DHCP, ports: o.Ports, loads: o.Loads, logs: o.Logs, whole: o.Versions.Whole,
	}
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/status", httpapi.JSON(site.status)),
		httpapi.NewRoute("GET", "/v1/leases", httpapi.JSON(site.listLeases)),
		httpapi.NewRoute("DELETE", "/v1/leases/{address}", httpapi.JSON(site.deleteLease)),
		httpapi.NewRoute("GET", "/v1/policy", httpapi.JSON(site.showPolicy)),
		httpapi.NewRoute("PUT", "/v1/policy", httpapi.JSON(site.setPolicy)),
		httpapi.NewRoute("GET", "/v1/sd", httpapi.JSON(Targets{o.Registry, o.Views}.List)),
	}
}

func (o Options) nodeRoutes(x extensions) []httpapi.Route {
	nodes := &nodeAPI{
		reg: o.Registry, views: o.Views, store: o.Store, renderer: o.Configs, extensions: x,
		addresses: addresses{o.Subnets, ownAddresses}, waker: o.Waker, data: o.Data,
		rebootAfter: o.RebootAfter, now: o.Now,
	}
	commands := &commandAPI{reg: o.Registry, commands: o.Commands}
	differ := &diffAPI{
		reg: o.Registry, views: o.Views, store: o.Store, renderer: o.Configs, extensions: x, methods: o.Methods,
		compare: o.Compare,
	}
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/nodes", httpapi.JSON(nodes.listNodes)),
		httpapi.NewRoute("POST", "/v1/nodes", httpapi.JSON(nodes.createNode)),
		httpapi.NewRoute("PATCH", "/v1/nodes", httpapi.JSON(nodes.setNodes)),
		httpapi.NewRoute("DELETE", "/v1/nodes", httpapi.JSON(nodes.deleteNodes)),
		httpapi.NewRoute("POST", "/v1/nodes/adopt", httpapi.JSON(nodes.adoptNodes)),
		httpapi.NewRoute("POST", "/v1/nodes/reset", httpapi.JSON(nodes.resetNodes)),
		httpapi.NewRoute("GET", "/v1/nodes/{name}", httpapi.JSON(nodes.showNode)),
		httpapi.NewRoute("GET", "/v1/nodes/{name}/disks", httpapi.JSON(commands.nodeDisks)),
		httpapi.NewRoute("POST", "/v1/nodes/{name}/cache", httpapi.JSON(commands.prepareCache)),
		httpapi.NewRoute("GET", "/v1/diff", httpapi.JSON(differ.diffNodes)),
	}
}

// fileRoutes returns the routes of config files and secrets, of syncs, and of approvals of boots.
func (o Options) fileRoutes() []httpapi.Route {
	configs := &configAPI{reg: o.Registry, renderer: o.Configs, now: o.Now}
	syncs := &syncAPI{reg: o.Registry, renderer: o.Configs, commands: o.Commands}
	secrets := &secretAPI{reg: o.Registry, renderer: o.Configs, now: o.Now}
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/config", httpapi.JSON(configs.listConfig)),
		httpapi.NewRoute("GET", "/v1/config/file", httpapi.JSON(configs.showConfig)),
		httpapi.NewRoute("PUT", "/v1/config", httpapi.JSON(configs.setConfig)),
		httpapi.NewRoute("DELETE", "/v1/config", httpapi.JSON(configs.deleteConfig)),
		httpapi.NewRoute("GET", "/v1/nodes/{name}/config", httpapi.JSON(configs.nodeConfig)),
		httpapi.NewRoute("POST", "/v1/nodes/sync", httpapi.JSON(syncs.syncNodes)),
		httpapi.NewRoute("POST", "/v1/nodes/approve", httpapi.JSON(secrets.approveNodes)),
		httpapi.NewRoute("GET", "/v1/secrets", httpapi.JSON(secrets.listSecrets)),
		httpapi.NewRoute("PUT", "/v1/secrets", httpapi.JSON(secrets.setSecret)),
		httpapi.NewRoute("DELETE", "/v1/secrets/{name}", httpapi.JSON(secrets.deleteSecret)),
	}
}

func bootRoutes(a *bootAPI) []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/nodes/{name}/boot", httpapi.JSON(a.showNodeBoot)),
		httpapi.NewRoute("GET", "/v1/boots", httpapi.JSON(a.listBoots)),
		httpapi.NewRoute("GET", "/v1/boots/failed", httpapi.JSON(a.listFailed)),
		httpapi.NewRoute("GET", "/v1/boots/{id}", httpapi.JSON(a.showBoot)),
		httpapi.NewRoute("GET", "/v1/events", httpapi.JSON(a.listEvents)),
		httpapi.NewRoute("GET", "/v1/events/stream", a.streamEvents),
	}
}

func groupRoutes(a *groupAPI) []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/groups", httpapi.JSON(a.listGroups)),
		httpapi.NewRoute("POST", "/v1/groups", httpapi.JSON(a.createGroup)),
		httpapi.NewRoute("GET", "/v1/groups/{name}", httpapi.JSON(a.showGroup)),
		httpapi.NewRoute("PATCH", "/v1/groups/{name}", httpapi.JSON(a.setGroup)),
		httpapi.NewRoute("DELETE", "/v1/groups/{name}", httpapi.JSON(a.deleteGroup)),
	}
}

func classRoutes(a *classAPI) []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/classes", httpapi.JSON(a.listClasses)),
		httpapi.NewRoute("POST", "/v1/classes", httpapi.JSON(a.createClass)),
		httpapi.NewRoute("GET", "/v1/classes/{name}", httpapi.JSON(a.showClass)),
		httpapi.NewRoute("PATCH", "/v1/classes/{name}", httpapi.JSON(a.setClass)),
		httpapi.NewRoute("DELETE", "/v1/classes/{name}", httpapi.JSON(a.deleteClass)),
	}
}

func fleetRoutes(a *fleetAPI) []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/fleet", httpapi.JSON(a.exportFleet)),
		httpapi.NewRoute("PUT", "/v1/fleet", httpapi.JSON(a.applyFleet)),
	}
}
