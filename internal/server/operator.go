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
	"pando/internal/server/logs"
	"pando/internal/server/operator"
	"pando/internal/server/state"
	"pando/internal/server/volumes"
)

// descriptionPath is where the description of the operator's API is.
const descriptionPath = "/v1/openapi.json"

//go:embed openapi.json
var description []byte

// serveDescription sends the OpenAPI description. It needs no token: it says nothing of this site.
func serveDescription(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description) // the client is gone when this fails
	return nil
}

// operatorList is every route of the operator's half of the HTTP API: what `pando` and other programs use. The list
// is the API: the description in openapi.json is tested against it, and so is the client.
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
		[]httpapi.Route{httpapi.NewRoute("GET", descriptionPath, serveDescription)},
	)
}

// operatorRoutes registers the operator's API. auth is put around every route: nothing on the socket, the check of a
// token on the control channel. The description is for everybody.
func (s *Server) operatorRoutes(m *httpapi.Mux, auth func(httpapi.Handler) httpapi.Handler) {
	routes := slices.DeleteFunc(s.operatorList(), func(r httpapi.Route) bool { return r.Path == descriptionPath })
	m.Route("GET "+descriptionPath, serveDescription)
	s.access.Protect(m, routes, auth)
	m.Route("/v1/", func(_ http.ResponseWriter, r *http.Request) error {
		return api.NewError(api.NotFound, "no such request: "+r.Method+" "+r.URL.Path, "see "+descriptionPath)
	}, auth)
}

// operatorOptions wires the answers about nodes, groups and whatever else is declared.
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

// nodeViews puts together what is known of nodes.
func (s *Server) nodeViews() fleetview.Nodes {
	return fleetview.Nodes{Registry: s.registry, LastSeen: s.lastSeen.Seen, Address: s.lastSeen.Address,
		State: s.faults.State}
}

// nodeData has what is kept of nodes outside of the registry follow their names.
type nodeData struct {
	*state.Service
	journals *logs.Journals
	volumes  *volumes.Service
	log      *slog.Logger
}

func (d nodeData) NodeRenamed(ctx context.Context, was, is string) {
	if err := d.journals.Rename(was, is); err != nil {
		d.log.Error("rename the journals of a node", "node", is, "was", was, "err", err)
	}
	d.Service.NodeRenamed(ctx, was, is)
}

func (d nodeData) NodeDeleted(ctx context.Context, node string, at time.Time) {
	d.Service.NodeDeleted(ctx, node, at)
	d.volumes.NodeDeleted(ctx, node)
}
