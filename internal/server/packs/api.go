package packs

import (
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// API answers requests of operators and nodes about read traces and boot packs.
type API struct {
	maker      *Maker
	recordings *Recordings
	registry   *registry.Registry
}

// NewAPI returns the API.
func NewAPI(m *Maker, r *Recordings) *API {
	return &API{maker: m, recordings: r, registry: m.registry}
}

// Routes returns the operator's routes about read traces and recordings.
func (a *API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/images/{name}/trace", httpapi.JSON(a.imageTrace)),
		httpapi.NewRoute("GET", "/v1/images/{name}/slim", httpapi.JSON(a.imageSlim)),
		httpapi.NewRoute("PUT", "/v1/nodes/{name}/recording", httpapi.JSON(a.setRecording)),
		httpapi.NewRoute("GET", "/v1/recordings", httpapi.JSON(a.listRecordings)),
	}
}
