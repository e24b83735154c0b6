package server

import (
	"net/http"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/server/access"
	"pando/internal/server/volumes"
	"pando/internal/trace"
)

// dataRoutes returns the handler of the image port.
func (s *Server) dataRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	m.Route("GET /o/{id}", s.booter.Refusals(trace.Kernel, s.objects.ServeObject))
	m.Route("GET /m/{name}", s.objects.ServeManifest)
	m.Route("GET /boot/script", s.booter.ServeScript)
	m.Route("GET /boot/{first}/{second}", s.serveBoot)
	m.Route("GET "+volumes.Path, s.volumes.ServeVolume)
	m.Handle("/swarm/", s.swarm.Handler())
	return m
}

// serveBoot serves /boot/file/<name> and /boot/<boot id>/initramfs. ServeMux would refuse the two patterns as
// conflicting.
func (s *Server) serveBoot(w http.ResponseWriter, r *http.Request) error {
	first, second := r.PathValue("first"), r.PathValue("second")
	switch {
	case first == "file":
		return s.booter.Refusals(trace.BootFile, func(w http.ResponseWriter, r *http.Request) error {
			return s.booter.ServeBootFile(w, r, second)
		})(w, r)
	case second == "initramfs":
		return s.booter.Refusals(trace.Initramfs, func(w http.ResponseWriter, r *http.Request) error {
			return s.booter.ServeInitramfs(w, r, fleet.BootID(first))
		})(w, r)
	}
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request, fleet.BootID) error{
		"trust": s.booter.ServeTrust, "head": s.booter.ServeHead, "sources": s.booter.ServeSources,
	} {
		if second == name {
			return s.booter.Refusals(trace.Initramfs, func(w http.ResponseWriter, r *http.Request) error {
				return serve(w, r, fleet.BootID(first))
			})(w, r)
		}
	}
	return api.NewError(api.NotFound, "no such file", "")
}

// controlRoutes returns the handler of the control port. Nodes authenticate by token or session, operators by token.
func (s *Server) controlRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	for path, h := range s.nodeRoutes() {
		m.Route("POST /v1/node/"+path, h)
	}
	m.Route("GET /metrics", s.serveMetrics, s.access.TokenOnly, access.SiteOnly)
	s.operatorRoutes(m, s.access.TokenOnly)
	return m
}

// nodeRoutes returns the handlers of nodes' requests, by path below /v1/node/.
func (s *Server) nodeRoutes() map[string]httpapi.Handler {
	return map[string]httpapi.Handler{
		"begin":          s.booter.Refusals(trace.Script, s.booter.BeginFromMedium),
		"hello":          s.booter.Refusals(trace.Register, s.booter.Register),
		"events":         s.nodeAPI.Events,
		"trace":          s.packAPI.NodeTrace,
		"medium":         s.media.NodeMedium,
		"errand":         s.nodeAPI.Command,
		"volume":         s.volumes.NodeVolume,
		"kexec":          s.booter.Kexec,
		"stage":          s.nodeAPI.Stage,
		"next":           s.booter.SoftReboot,
		"extensions":     s.nodeAPI.Extensions,
		"config":         s.nodeAPI.ConfigFiles,
		"journal/upload": s.journals.Upload,
		"state/send":     s.state.TakeState,
		"state/fetch":    s.state.GiveState,
	}
}

// socketRoutes returns the operator's API without authentication: the socket's permissions say who may use it.
func (s *Server) socketRoutes() http.Handler {
	m := httpapi.NewMux(s.log)
	m.Route("GET /metrics", s.serveMetrics)
	s.operatorRoutes(m, func(h httpapi.Handler) httpapi.Handler { return h })
	return m
}
