package images

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"time"

	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/store"
)

// API answers operators about images, their versions and tags, and the keys that sign them.
type API struct {
	store      *store.Dir
	registry   *registry.Registry
	views      fleetview.Nodes
	signer     *Signer
	key        ed25519.PublicKey
	collector  Collector
	newVersion func(...fleet.Digest)
	wake       func(context.Context, []string)
	logsKept   bool
	now        func() time.Time
	log        *slog.Logger
}

// Collector is the garbage collection of versions.
type Collector interface {
	// LockNames keeps versions from being collected until unlock is called.
	LockNames() (unlock func())
	// UsedBy lists what uses each version, so that it cannot be deleted.
	UsedBy(ctx context.Context, tx *registry.Tx) (map[fleet.Digest][]string, error)
}

// Options are what an API needs.
type Options struct {
	Store      *store.Dir
	Registry   *registry.Registry
	LastSeen   func(fleet.Node) time.Time
	Signer     *Signer
	ServerKey  ed25519.PublicKey // the key that nodes pin
	Collector  Collector
	NewVersion func(...fleet.Digest)           // is called with versions that were added
	Wake       func(context.Context, []string) // makes the named nodes check their extensions now
	LogsKept   bool                            // the server keeps nodes' journals
	Now        func() time.Time
	Log        *slog.Logger
}

// NewAPI returns an API.
func NewAPI(o Options) *API {
	return &API{
		store: o.Store, registry: o.Registry, views: fleetview.Nodes{Registry: o.Registry, LastSeen: o.LastSeen},
		signer: o.Signer, key: o.ServerKey, collector: o.Collector, newVersion: o.NewVersion, wake: o.Wake,
		logsKept: o.LogsKept, now: o.Now, log: o.Log,
	}
}

// Routes returns the operators' routes about images and keys.
func (a *API) Routes() []httpapi.Route {
	return []httpapi.Route{
		httpapi.NewRoute("GET", "/v1/images", httpapi.JSON(a.listImages)),
		httpapi.NewRoute("GET", "/v1/images/{name}", httpapi.JSON(a.showImage)),
		httpapi.NewRoute("GET", "/v1/images/{name}/diff", httpapi.JSON(a.imageDiff)),
		httpapi.NewRoute("GET", "/v1/images/{name}/history", httpapi.JSON(a.imageHistory)),
		httpapi.NewRoute("GET", "/v1/images/{name}/sbom", httpapi.JSON(a.imageSBOM)),
		httpapi.NewRoute("POST", "/v1/images/{name}/versions", httpapi.JSON(a.addVersion)),
		httpapi.NewRoute("DELETE", "/v1/images/{name}/versions/{version}", httpapi.JSON(a.deleteVersion)),
		httpapi.NewRoute("PUT", "/v1/images/{name}/tags/{tag}", httpapi.JSON(a.setTag)),
		httpapi.NewRoute("DELETE", "/v1/images/{name}/tags/{tag}", httpapi.JSON(a.deleteTag)),
		httpapi.NewRoute("GET", "/v1/keys", httpapi.JSON(a.showKeys)),
		httpapi.NewRoute("POST", "/v1/keys", httpapi.JSON(a.createKey)),
		httpapi.NewRoute("POST", "/v1/keys/{name}/rotate", httpapi.JSON(a.rotateKey)),
		httpapi.NewRoute("POST", "/v1/keys/{name}/revoke", httpapi.JSON(a.revokeKey)),
		httpapi.NewRoute("POST", "/v1/signatures", httpapi.JSON(a.addSignature)),
	}
}
