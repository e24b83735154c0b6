package objects

import (
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/registry"
	"pando/internal/store"
)

// API answers operators about the store, and takes the versions that they push.
type API struct {
	store     *store.Dir
	registry  *registry.Registry
	ring      *identity.Ring
	collector *Collector
}

// NewAPI returns the API of a collector's store. Pushed versions must be signed by a key that the ring trusts.
func NewAPI(c *Collector, ring *identity.Ring) *API {
	return &API{store: c.store, registry: c.registry, ring: ring, collector: c}
}

// Routes returns the operators' routes about the store.
func (a *API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/store/usage", httpapi.JSON(a.storeUsage)),
		httpapi.NewRoute("POST", "/v1/store/collect", httpapi.JSON(a.collectStore)),
		httpapi.NewRoute("GET", "/v1/store/versions/{digest}", httpapi.JSON(a.storedVersion)),
		httpapi.NewRoute("POST", "/v1/store/versions", a.putVersion),
		httpapi.NewRoute("POST", "/v1/store/missing", httpapi.JSON(a.missingObjects)),
		httpapi.NewRoute("GET", "/v1/store/objects/{id}", a.storedObject),
		httpapi.NewRoute("POST", "/v1/store/objects", a.addObjects),
	}
}
