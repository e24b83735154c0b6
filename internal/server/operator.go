package server

import (
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/httpapi"
)

// operatorList is every route of the operator's half of the HTTP API: what `pando` and other programs use. The list
// is the API: the description in openapi.json is tested against it, and so is the client.
func (o *operator) operatorList() []httpapi.Route {
	return slices.Concat(
		o.configRoutes(),
		o.secretRoutes(),
		o.access.Routes(),
		o.state.Routes(),
		o.journals.Routes(),
		o.powers.Routes(),
		o.rollouts.Routes(),
		o.history.Routes(),
		o.packAPI.Routes(),
		o.storeAPI.Routes(),
		o.imageAPI.Routes(),
		o.media.Routes(),
		[]httpapi.Route{
			httpapi.NewRoute("GET", "/v1/openapi.json", serveDescription),
			httpapi.NewRoute("GET", "/v1/status", httpapi.JSON(o.status)),
			httpapi.NewRoute("GET", "/v1/nodes", httpapi.JSON(o.listNodes)),
			httpapi.NewRoute("POST", "/v1/nodes", httpapi.JSON(o.createNode)),
			httpapi.NewRoute("PATCH", "/v1/nodes", httpapi.JSON(o.setNodes)),
			httpapi.NewRoute("DELETE", "/v1/nodes", httpapi.JSON(o.deleteNodes)),
			httpapi.NewRoute("POST", "/v1/nodes/adopt", httpapi.JSON(o.adoptNodes)),
			httpapi.NewRoute("GET", "/v1/nodes/{name}", httpapi.JSON(o.showNode)),
			httpapi.NewRoute("GET", "/v1/nodes/{name}/boot", httpapi.JSON(o.showNodeBoot)),
			httpapi.NewRoute("GET", "/v1/nodes/{name}/disks", httpapi.JSON(o.nodeDisks)),
			httpapi.NewRoute("POST", "/v1/nodes/{name}/cache", httpapi.JSON(o.prepareCache)),
			httpapi.NewRoute("GET", "/v1/groups", httpapi.JSON(o.listGroups)),
			httpapi.NewRoute("POST", "/v1/groups", httpapi.JSON(o.createGroup)),
			httpapi.NewRoute("GET", "/v1/groups/{name}", httpapi.JSON(o.showGroup)),
			httpapi.NewRoute("PATCH", "/v1/groups/{name}", httpapi.JSON(o.setGroup)),
			httpapi.NewRoute("DELETE", "/v1/groups/{name}", httpapi.JSON(o.deleteGroup)),
			httpapi.NewRoute("GET", "/v1/classes", httpapi.JSON(o.listClasses)),
			httpapi.NewRoute("POST", "/v1/classes", httpapi.JSON(o.createClass)),
			httpapi.NewRoute("GET", "/v1/classes/{name}", httpapi.JSON(o.showClass)),
			httpapi.NewRoute("PATCH", "/v1/classes/{name}", httpapi.JSON(o.setClass)),
			httpapi.NewRoute("DELETE", "/v1/classes/{name}", httpapi.JSON(o.deleteClass)),
			httpapi.NewRoute("GET", "/v1/diff", httpapi.JSON(o.diffNodes)),
			httpapi.NewRoute("GET", "/v1/boots", httpapi.JSON(o.listBoots)),
			httpapi.NewRoute("GET", "/v1/boots/failed", httpapi.JSON(o.listFailed)),
			httpapi.NewRoute("GET", "/v1/boots/{id}", httpapi.JSON(o.showBoot)),
			httpapi.NewRoute("GET", "/v1/events", httpapi.JSON(o.listEvents)),
			httpapi.NewRoute("GET", "/v1/events/stream", o.streamEvents),
			httpapi.NewRoute("GET", "/v1/leases", httpapi.JSON(o.listLeases)),
			httpapi.NewRoute("GET", "/v1/sd", httpapi.JSON(o.scrapeTargets)),
			httpapi.NewRoute("GET", "/v1/policy", httpapi.JSON(o.showPolicy)),
			httpapi.NewRoute("PUT", "/v1/policy", httpapi.JSON(o.setPolicy)),
			httpapi.NewRoute("GET", "/v1/fleet", httpapi.JSON(o.exportFleet)),
			httpapi.NewRoute("PUT", "/v1/fleet", httpapi.JSON(o.applyFleet)),
		},
	)
}

// operatorRoutes registers the operator's API. auth is put around every route: nothing on the socket, the check of a
// token on the control channel. The description is for everybody.
func (o *operator) operatorRoutes(m *httpapi.Mux, auth func(httpapi.Handler) httpapi.Handler) {
	routes := slices.DeleteFunc(o.operatorList(), func(r httpapi.Route) bool { return r.Path == descriptionPath })
	m.Route("GET "+descriptionPath, serveDescription)
	o.access.Protect(m, routes, auth)
	m.Route("/v1/", func(_ http.ResponseWriter, r *http.Request) error {
		return api.NewError(api.NotFound, "no such request: "+r.Method+" "+r.URL.Path, "see "+descriptionPath)
	}, auth)
}
