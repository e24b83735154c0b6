package server

import (
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/httpapi"
)

// operatorRoute is one route of the operator's API. The list of them is the API: the description in
// openapi.json is tested against it, and so is the client.
type operatorRoute struct {
	method, path string
	handle       httpapi.Handler
}

// operatorList is every route of the operator's half of the HTTP API: what `pando` and other programs use.
func (o *operator) operatorList() []operatorRoute {
	return slices.Concat(
		o.configRoutes(),
		o.secretRoutes(),
		o.accessRoutes(),
		o.stateRoutes(),
		o.logRoutes(),
		[]operatorRoute{
			{"GET", "/v1/openapi.json", serveDescription},
			{"GET", "/v1/status", httpapi.JSON(o.status)},
			{"GET", "/v1/nodes", httpapi.JSON(o.listNodes)},
			{"POST", "/v1/nodes", httpapi.JSON(o.createNode)},
			{"PATCH", "/v1/nodes", httpapi.JSON(o.setNodes)},
			{"DELETE", "/v1/nodes", httpapi.JSON(o.deleteNodes)},
			{"POST", "/v1/nodes/adopt", httpapi.JSON(o.adoptNodes)},
			{"GET", "/v1/nodes/{name}", httpapi.JSON(o.showNode)},
			{"GET", "/v1/nodes/{name}/boot", httpapi.JSON(o.showNodeBoot)},
			{"GET", "/v1/nodes/{name}/disks", httpapi.JSON(o.nodeDisks)},
			{"POST", "/v1/nodes/{name}/cache", httpapi.JSON(o.prepareCache)},
			{"POST", "/v1/nodes/{name}/power", httpapi.JSON(o.switchNode)},
			{"PUT", "/v1/nodes/{name}/password", httpapi.JSON(o.setNodePassword)},
			{"PUT", "/v1/nodes/{name}/recording", httpapi.JSON(o.setRecording)},
			{"GET", "/v1/recordings", httpapi.JSON(o.listRecordings)},
			{"GET", "/v1/groups", httpapi.JSON(o.listGroups)},
			{"POST", "/v1/groups", httpapi.JSON(o.createGroup)},
			{"GET", "/v1/groups/{name}", httpapi.JSON(o.showGroup)},
			{"PATCH", "/v1/groups/{name}", httpapi.JSON(o.setGroup)},
			{"DELETE", "/v1/groups/{name}", httpapi.JSON(o.deleteGroup)},
			{"PUT", "/v1/groups/{name}/password", httpapi.JSON(o.setGroupPassword)},
			{"GET", "/v1/power", httpapi.JSON(o.listPower)},
			{"GET", "/v1/classes", httpapi.JSON(o.listClasses)},
			{"POST", "/v1/classes", httpapi.JSON(o.createClass)},
			{"GET", "/v1/classes/{name}", httpapi.JSON(o.showClass)},
			{"PATCH", "/v1/classes/{name}", httpapi.JSON(o.setClass)},
			{"DELETE", "/v1/classes/{name}", httpapi.JSON(o.deleteClass)},
			{"GET", "/v1/diff", httpapi.JSON(o.diffNodes)},
			{"GET", "/v1/rollouts", httpapi.JSON(o.listRollouts)},
			{"POST", "/v1/rollouts", httpapi.JSON(o.startRollout)},
			{"GET", "/v1/rollouts/{id}", httpapi.JSON(o.showRollout)},
			{"POST", "/v1/rollouts/{id}/pause", httpapi.JSON(o.pauseRollout)},
			{"POST", "/v1/rollouts/{id}/resume", httpapi.JSON(o.resumeRollout)},
			{"POST", "/v1/rollouts/{id}/abort", httpapi.JSON(o.abortRollout)},
			{"DELETE", "/v1/rollouts/{id}", httpapi.JSON(o.deleteRollout)},
			{"GET", "/v1/images", httpapi.JSON(o.listImages)},
			{"GET", "/v1/images/{name}", httpapi.JSON(o.showImage)},
			{"GET", "/v1/images/{name}/trace", httpapi.JSON(o.imageTrace)},
			{"GET", "/v1/images/{name}/diff", httpapi.JSON(o.imageDiff)},
			{"GET", "/v1/images/{name}/history", httpapi.JSON(o.imageHistory)},
			{"GET", "/v1/images/{name}/sbom", httpapi.JSON(o.imageSBOM)},
			{"GET", "/v1/images/{name}/slim", httpapi.JSON(o.imageSlim)},
			{"POST", "/v1/images/{name}/versions", httpapi.JSON(o.addVersion)},
			{"DELETE", "/v1/images/{name}/versions/{version}", httpapi.JSON(o.deleteVersion)},
			{"PUT", "/v1/images/{name}/tags/{tag}", httpapi.JSON(o.setTag)},
			{"DELETE", "/v1/images/{name}/tags/{tag}", httpapi.JSON(o.deleteTag)},
			{"GET", "/v1/store/usage", httpapi.JSON(o.storeUsage)},
			{"POST", "/v1/store/collect", httpapi.JSON(o.collectStore)},
			{"GET", "/v1/store/versions/{digest}", httpapi.JSON(o.storedVersion)},
			{"POST", "/v1/store/versions", o.putVersion},
			{"POST", "/v1/store/missing", httpapi.JSON(o.missingObjects)},
			{"GET", "/v1/store/objects/{id}", o.storedObject},
			{"POST", "/v1/store/objects", o.addObjects},
			{"GET", "/v1/boots", httpapi.JSON(o.listBoots)},
			{"GET", "/v1/boots/failed", httpapi.JSON(o.listFailed)},
			{"GET", "/v1/boots/{id}", httpapi.JSON(o.showBoot)},
			{"GET", "/v1/history", httpapi.JSON(o.listHistory)},
			{"GET", "/v1/history/figures", httpapi.JSON(o.bootFigures)},
			{"GET", "/v1/history/compare", httpapi.JSON(o.compareBoots)},
			{"GET", "/v1/history/samples", httpapi.JSON(o.samples)},
			{"GET", "/v1/history/senders", httpapi.JSON(o.senders)},
			{"GET", "/v1/events", httpapi.JSON(o.listEvents)},
			{"GET", "/v1/events/stream", o.streamEvents},
			{"GET", "/v1/leases", httpapi.JSON(o.listLeases)},
			{"GET", "/v1/sd", httpapi.JSON(o.scrapeTargets)},
			{"GET", "/v1/keys", httpapi.JSON(o.showKeys)},
			{"POST", "/v1/keys", httpapi.JSON(o.createKey)},
			{"POST", "/v1/keys/{name}/rotate", httpapi.JSON(o.rotateKey)},
			{"POST", "/v1/keys/{name}/revoke", httpapi.JSON(o.revokeKey)},
			{"POST", "/v1/signatures", httpapi.JSON(o.addSignature)},
			{"POST", "/v1/media", o.createMedium},
			{"GET", "/v1/policy", httpapi.JSON(o.showPolicy)},
			{"PUT", "/v1/policy", httpapi.JSON(o.setPolicy)},
			{"GET", "/v1/fleet", httpapi.JSON(o.exportFleet)},
			{"PUT", "/v1/fleet", httpapi.JSON(o.applyFleet)},
		},
	)
}

// operatorRoutes registers the operator's API. auth is put around every route: nothing on the socket, the check of a
// token on the control channel. The description is for everybody.
func (o *operator) operatorRoutes(m *httpapi.Mux, auth func(httpapi.Handler) httpapi.Handler) {
	reach := reaches()
	for _, r := range o.operatorList() {
		if r.path == descriptionPath {
			m.Route(r.method+" "+r.path, r.handle)
			continue
		}
		around := []func(httpapi.Handler) httpapi.Handler{auth}
		if isWrite(r.method, r.path) {
			around = append(around, o.audited)
		}
		m.Route(
			r.method+" "+r.path,
			r.handle,
			append(around, takes(needs(r.method, r.path)), confined(reach[r.method+" "+r.path]))...)
	}
	m.Route("/v1/", func(_ http.ResponseWriter, r *http.Request) error {
		return api.NewError(api.NotFound, "no such request: "+r.Method+" "+r.URL.Path, "see "+descriptionPath)
	}, auth)
}
