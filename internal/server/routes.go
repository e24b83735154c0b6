package server

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"time"

	"pando/internal/api"
	"pando/internal/bootmethod"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/lastseen"
	"pando/internal/nodecommand"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
	"pando/internal/server/access"
	"pando/internal/server/bootmedia"
	"pando/internal/server/history"
	"pando/internal/server/images"
	"pando/internal/server/logs"
	"pando/internal/server/objects"
	"pando/internal/server/packs"
	"pando/internal/server/power"
	"pando/internal/server/rollouts"
	"pando/internal/server/state"
	"pando/internal/server/volumes"
	"pando/internal/store"
	"pando/internal/versions"
)

// dataRoutes is the data path.
func (s *Server) dataRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	m.Route("GET /o/{id}", s.objects.ServeObject)
	m.Route("GET /m/{name}", s.objects.ServeManifest)
	m.Route("GET /boot/script", s.loader.ServeScript)
	m.Route("GET /boot/{first}/{second}", s.serveBoot)
	m.Route("GET "+volumes.Path, s.volumes.ServeVolume)
	m.Handle("/swarm/", s.swarm.Handler())
	return m
}

// serveBoot tells /boot/file/<name> and /boot/<boot id>/initramfs apart, which ServeMux takes for one another.
func (s *Server) serveBoot(w http.ResponseWriter, r *http.Request) error {
	first, second := r.PathValue("first"), r.PathValue("second")
	switch {
	case first == "file":
		return s.loader.ServeBootFile(w, r, second)
	case second == "initramfs":
		return s.loader.ServeInitramfs(w, r, fleet.BootID(first))
	}
	return api.NewError(api.NotFound, "no such file", "")
}

// controlRoutes is the control channel: nodes by their token or session, operators by their token.
func (s *Server) controlRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	for path, h := range s.nodeRoutes() {
		m.Route("POST /v1/node/"+path, h)
	}
	m.Route("GET /metrics", s.serveMetrics, s.access.TokenOnly, access.SiteOnly)
	s.operator().operatorRoutes(m, s.access.TokenOnly)
	return m
}

// nodeRoutes is what nodes ask and report, by path below /v1/node/.
func (s *Server) nodeRoutes() map[string]httpapi.Handler {
	return map[string]httpapi.Handler{
		"begin":          s.loader.BeginFromMedium,
		"hello":          s.loader.Hello,
		"events":         s.nodeAPI.Events,
		"trace":          s.packAPI.NodeTrace,
		"medium":         s.media.NodeMedium,
		"errand":         s.nodeAPI.Command,
		"volume":         s.volumes.NodeVolume,
		"kexec":          s.loader.Kexec,
		"stage":          s.nodeAPI.Stage,
		"next":           s.loader.SoftReboot,
		"extensions":     s.nodeAPI.Extensions,
		"config":         s.nodeAPI.ConfigFiles,
		"journal/upload": s.journals.Upload,
		"state/send":     s.state.TakeState,
		"state/fetch":    s.state.GiveState,
	}
}

// socketRoutes is the operator's API for whoever may open the socket.
func (s *Server) socketRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	m.Route("GET /metrics", s.serveMetrics)
	s.operator().operatorRoutes(m, func(h httpapi.Handler) httpapi.Handler { return h })
	return m
}

// operator answers the operator's half of the API, from these.
type operator struct {
	access *access.Guard

	reg *registry.Registry

	views fleetview.Nodes

	store *store.Dir

	signer *images.Signer // the keys that sign versions

	key ed25519.PublicKey // the server's

	release string

	started time.Time

	packs *packs.Maker

	keeper *objects.Collector

	loads func() api.Loads // how many nodes load kernel and initramfs now

	dhcp func() api.DHCP // what the DHCP part does now

	flushEvents func(context.Context) error // writes events that are written behind

	heard *lastseen.Times

	faults *history.Faults

	history *history.API

	media *bootmedia.Service

	errands *nodecommand.Queue

	nudger *nodecommand.Waker

	volumes *volumes.Service

	rollouts *rollouts.Runner

	powers *power.Controller

	methods *bootmethod.Chooser

	versions *versions.Cache

	configs *nodeconfig.Renderer

	journals *logs.Journals

	now func() time.Time

	log *slog.Logger

	rebootAfter time.Duration // of nodes whose group says nothing

	packAPI *packs.API

	storeAPI *objects.API

	imageAPI *images.API

	state *state.Service
}

func (s *Server) operator() *operator {
	o := &operator{}
	o.access = s.access
	o.reg = s.registry
	o.flushEvents = s.boots.Flush
	o.views = fleetview.Nodes{Registry: s.registry, LastSeen: s.heard.Seen}
	o.store = s.store
	o.signer = s.signer
	o.key = s.keys.ServerPublic()
	o.release = s.cfg.Release
	o.started = s.started
	o.packs = s.packs
	o.keeper = s.keeper
	o.loads = s.turns.Status
	o.dhcp = s.dhcpStatus
	o.media = s.media
	o.heard = s.heard
	o.faults = s.faults
	o.history = history.NewAPI(s.registry)
	o.rebootAfter = s.cfg.RebootAfter
	o.errands = s.errands
	o.nudger = s.nudger
	o.volumes = s.volumes
	o.rollouts = s.rollouts
	o.powers = s.powers
	o.methods = s.methods
	o.versions = s.versions
	o.configs = s.configs
	o.journals = s.journals
	o.now = s.now
	o.log = s.log
	o.packAPI = s.packAPI
	o.storeAPI = s.storeAPI
	o.imageAPI = s.imageAPI
	o.state = s.state
	return o
}
