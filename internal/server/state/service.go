package state

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/registry"
	"pando/internal/volume"
)

// Service keeps record of node state, and carries copies of it from node to node.
type Service struct {
	registry *registry.Registry
	volumes  *volume.Dir
	Spool    *Spool
	views    fleetview.Nodes
	nodes    Nodes
	commands Commands
	told     told
	now      func() time.Time
	log      *slog.Logger
}

// Nodes knows which node makes a request.
type Nodes interface {
	// Reporter returns the boot that a request may speak for.
	Reporter(r *http.Request, boot fleet.BootID) (registry.Boot, error)
	// Member returns the adopted node that has a MAC, and its group with the node's own settings.
	Member(ctx context.Context, mac fleet.MAC) (fleet.Node, fleet.Group, error)
	// Withheld returns why a boot gets no secrets, "" if it gets them.
	Withheld(b registry.Boot, n fleet.Node, g fleet.Group) string
}

// Commands has running nodes do something.
type Commands interface {
	Do(ctx context.Context, boot fleet.BootID, what api.Errand) (api.ErrandReport, error)
}

// Options are what a Service needs.
type Options struct {
	Dir      string // the data directory
	Registry *registry.Registry
	Volumes  *volume.Dir
	LastSeen func(fleet.Node) time.Time
	Nodes    Nodes
	Commands Commands
	Now      func() time.Time
	Log      *slog.Logger
}

// New returns a Service.
func New(o Options) *Service {
	return &Service{
		registry: o.Registry, volumes: o.Volumes, Spool: newSpool(filepath.Join(o.Dir, SpoolDir)),
		views: fleetview.Nodes{Registry: o.Registry, LastSeen: o.LastSeen}, nodes: o.Nodes, commands: o.Commands,
		now: o.Now, log: o.Log,
	}
}
