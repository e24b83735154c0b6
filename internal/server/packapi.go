package server

import (
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// packAPI answers what operators and nodes ask about read traces and boot packs.
type packAPI struct {
	packs      *packs
	recordings *recordings
	registry   *registry.Registry
}

// routes are the operator's requests about what boots read.
func (a *packAPI) routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/images/{name}/trace", httpapi.JSON(a.imageTrace)),
		httpapi.NewRoute("GET", "/v1/images/{name}/slim", httpapi.JSON(a.imageSlim)),
		httpapi.NewRoute("PUT", "/v1/nodes/{name}/recording", httpapi.JSON(a.setRecording)),
		httpapi.NewRoute("GET", "/v1/recordings", httpapi.JSON(a.listRecordings)),
	}
}

func (s *Server) packAPI() *packAPI {
	return &packAPI{packs: s.packs, recordings: s.recordings, registry: s.registry}
}
