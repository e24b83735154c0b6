package state

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/nodeauth"
	"pando/internal/registry"
	"pando/internal/volume"
)

// Service records node state, and carries copies of it from node to node.
type Service struct {
	registry *registry.Registry
	volumes  *volume.Dir
	Spool    *Spool
	views    fleetview.Nodes
	auth     *nodeauth.Checker
	members  Members
	told     told
	now      func() time.Time
	log      *slog.Logger
}

// Members knows the adopted nodes.
type Members interface {
	// Member returns the adopted node that has a MAC, and its group with the node's own settings.
	Member(ctx context.Context, mac fleet.MAC) (fleet.Node, fleet.Group, error)
}

// Options are what a Service needs.
type Options struct {
	Dir      string // the data directory
	Registry *registry.Registry
	Volumes  *volume.Dir
	LastSeen func(fleet.Node) time.Time
	Auth     *nodeauth.Checker
	Members  Members
	Now      func() time.Time
	Log      *slog.Logger
}

// New returns a Service.
func New(o Options) *Service {
	return &Service{
		registry: o.Registry, volumes: o.Volumes, Spool: &Spool{dir: filepath.Join(o.Dir, SpoolDir), Free: spoolFree},
		views: fleetview.Nodes{
			Registry: o.Registry,
			LastSeen: o.LastSeen,
		}, auth: o.Auth, members: o.Members,
		now: o.Now, log: o.Log,
	}
}
