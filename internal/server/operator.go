package server

import (
	"context"
	_ "embed"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/server/history"
	"pando/internal/server/loaders"
	"pando/internal/server/logs"
	"pando/internal/server/operator"
	"pando/internal/server/state"
	"pando/internal/server/volumes"
)

// descriptionPath is the path of the OpenAPI description.
const descriptionPath = "/v1/openapi.json"

//go:embed openapi.json
var description []byte

// serveDescription sends the OpenAPI description. It needs no token, because it contains nothing about this site.
func serveDescription(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description) // it fails only if the client is gone
	return nil
}

// operatorList returns every route of the operator's API. Tests compare openapi.json and the client with this list.
func (s *Server) operatorList() []httpapi.Route {
	return slices.Concat(
		operator.Routes(s.operatorOptions()),
		s.access.Routes(),
		s.state.Routes(),
		s.journals.Routes(),
		s.power.Routes(),
		s.rollouts.Routes(),
		history.NewAPI(s.registry).Routes(),
		s.packAPI.Routes(),
		s.storeAPI.Routes(),
		s.imageAPI.Routes(),
		s.media.Routes(),
		loaders.New(s.loaders, s.log).Routes(),
		[]httpapi.Route{httpapi.NewRoute("GET", descriptionPath, serveDescription)},
	)
}

// operatorRoutes registers the operator's API. It wraps every route in auth: the token check on the control port,
// nothing on the socket. The description is open to everybody.
func (s *Server) operatorRoutes(m *httpapi.Mux, auth func(httpapi.Handler) httpapi.Handler) {
	routes := slices.DeleteFunc(s.operatorList(), func(r httpapi.Route) bool { return r.Path == descriptionPath })
	m.Route("GET "+descriptionPath, serveDescription)
	s.access.Protect(m, routes, auth)
	m.Route("/v1/", func(_ http.ResponseWriter, r *http.Request) error {
		return api.NewError(api.NotFound, "no such request: "+r.Method+" "+r.URL.Path, "see "+descriptionPath)
	}, auth)
}

// operatorOptions wires the API about nodes, groups and other declared things.
func (s *Server) operatorOptions() operator.Options {
	return operator.Options{
		Registry: s.registry, Store: s.store, Versions: s.versions, Views: s.nodeViews(), Configs: s.configs,
		Commands: s.commands, Waker: s.waker, Methods: s.methods,
		Data:   nodeData{s.state, s.journals, s.volumes, s.log},
		Faults: s.faults, Compare: s.imageAPI.Compare, FlushEvents: s.boots.Flush, DHCP: s.dhcpStatus,
		Ports: s.portsForNodes, Loads: s.admission.Status, Subnets: s.ownSubnets,
		Logs: s.journals.Status, Release: s.cfg.Release, RebootAfter: s.cfg.RebootAfter, Started: s.started,
		Now: s.now,
	}
}

// nodeViews returns the source of api.Node views: the registry, times of the last packet, addresses and boot states.
func (s *Server) nodeViews() fleetview.Nodes {
	return fleetview.Nodes{Registry: s.registry, LastSeen: s.lastSeen.Seen, Address: s.lastSeen.Address,
		State: s.faults.State}
}

// nodeData renames and deletes data of nodes outside of the registry: state, journals, swap space.
type nodeData struct {
	*state.Service
	journals *logs.Journals
	volumes  *volumes.Service
	log      *slog.Logger
}

func (d nodeData) NodeRenamed(ctx context.Context, was, is string) {
	if err := d.journals.Rename(was, is); err != nil {
		d.log.Error("journals of a renamed node cannot be renamed", "node", is, "was", was, "err", err)
	}
	d.Service.NodeRenamed(ctx, was, is)
}

func (d nodeData) NodeDeleted(ctx context.Context, node string, at time.Time) {
	d.Service.NodeDeleted(ctx, node, at)
	d.volumes.NodeDeleted(ctx, node)
}
