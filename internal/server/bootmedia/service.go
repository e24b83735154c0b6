package bootmedia

import (
	"log/slog"

	"pando/internal/bootplan"
	"pando/internal/endpoint"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/initrd"
	"pando/internal/nodeauth"
	"pando/internal/registry"
	"pando/internal/store"
	"pando/internal/versions"
)

// Service makes boot media, and keeps those of running nodes up to date.
type Service struct {
	store    *store.Dir
	registry *registry.Registry
	versions *versions.Cache
	planner  *bootplan.Planner
	keys     identity.Keys
	agents   initrd.Programs
	disks    *initrd.DiskDrivers
	ports    *endpoint.Ports
	auth     *nodeauth.Checker
	log      *slog.Logger

	interfaces []string // interfaces of this server that nodes use
	bootFiles  string   // the directory with iPXE
	release    string

	Sending Limit   // media that are being sent
	Digests Digests // digests of what media have
}

// Options are what a Service needs.
type Options struct {
	Store      *store.Dir
	Registry   *registry.Registry
	Versions   *versions.Cache
	Planner    *bootplan.Planner
	Keys       identity.Keys
	Agents     initrd.Programs
	Disks      *initrd.DiskDrivers
	Ports      *endpoint.Ports
	Auth       *nodeauth.Checker
	Interfaces []string // interfaces of this server that nodes use; empty: all
	BootFiles  string   // the directory with iPXE
	Release    string
	Log        *slog.Logger
}

// New returns a Service.
func New(o Options) *Service {
	return &Service{store: o.Store, registry: o.Registry, versions: o.Versions, planner: o.Planner, keys: o.Keys,
		agents: o.Agents, disks: o.Disks, ports: o.Ports, auth: o.Auth, log: o.Log,
		interfaces: o.Interfaces, bootFiles: o.BootFiles, release: o.Release}
}

// Routes are the operators' requests about boot media.
func (s *Service) Routes() []httpapi.Route {
	return []httpapi.Route{httpapi.NewRoute("POST", "/v1/media", s.createMedium)}
}
