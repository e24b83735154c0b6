package server

import (
	"net/http"
	"slices"
	"strconv"

	"pando/internal/api"
)

// operatorRoute is one route of the operator's API. The list of them is the API: the description in
// openapi.json is tested against it, and so is the client.
type operatorRoute struct {
	method, path string
	handle       handler
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
			{"GET", "/v1/status", answer(o.status)},
			{"GET", "/v1/nodes", answer(o.listNodes)},
			{"POST", "/v1/nodes", answer(o.createNode)},
			{"PATCH", "/v1/nodes", answer(o.setNodes)},
			{"DELETE", "/v1/nodes", answer(o.deleteNodes)},
			{"POST", "/v1/nodes/adopt", answer(o.adoptNodes)},
			{"GET", "/v1/nodes/{name}", answer(o.showNode)},
			{"GET", "/v1/nodes/{name}/boot", answer(o.showNodeBoot)},
			{"GET", "/v1/nodes/{name}/disks", answer(o.nodeDisks)},
			{"POST", "/v1/nodes/{name}/cache", answer(o.prepareCache)},
			{"POST", "/v1/nodes/{name}/power", answer(o.switchNode)},
			{"PUT", "/v1/nodes/{name}/password", answer(o.setNodePassword)},
			{"PUT", "/v1/nodes/{name}/recording", answer(o.setRecording)},
			{"GET", "/v1/recordings", answer(o.listRecordings)},
			{"GET", "/v1/groups", answer(o.listGroups)},
			{"POST", "/v1/groups", answer(o.createGroup)},
			{"GET", "/v1/groups/{name}", answer(o.showGroup)},
			{"PATCH", "/v1/groups/{name}", answer(o.setGroup)},
			{"DELETE", "/v1/groups/{name}", answer(o.deleteGroup)},
			{"PUT", "/v1/groups/{name}/password", answer(o.setGroupPassword)},
			{"GET", "/v1/power", answer(o.listPower)},
			{"GET", "/v1/classes", answer(o.listClasses)},
			{"POST", "/v1/classes", answer(o.createClass)},
			{"GET", "/v1/classes/{name}", answer(o.showClass)},
			{"PATCH", "/v1/classes/{name}", answer(o.setClass)},
			{"DELETE", "/v1/classes/{name}", answer(o.deleteClass)},
			{"GET", "/v1/diff", answer(o.diffNodes)},
			{"GET", "/v1/rollouts", answer(o.listRollouts)},
			{"POST", "/v1/rollouts", answer(o.startRollout)},
			{"GET", "/v1/rollouts/{id}", answer(o.showRollout)},
			{"POST", "/v1/rollouts/{id}/pause", answer(o.pauseRollout)},
			{"POST", "/v1/rollouts/{id}/resume", answer(o.resumeRollout)},
			{"POST", "/v1/rollouts/{id}/abort", answer(o.abortRollout)},
			{"DELETE", "/v1/rollouts/{id}", answer(o.deleteRollout)},
			{"GET", "/v1/images", answer(o.listImages)},
			{"GET", "/v1/images/{name}", answer(o.showImage)},
			{"GET", "/v1/images/{name}/trace", answer(o.imageTrace)},
			{"GET", "/v1/images/{name}/diff", answer(o.imageDiff)},
			{"GET", "/v1/images/{name}/history", answer(o.imageHistory)},
			{"GET", "/v1/images/{name}/sbom", answer(o.imageSBOM)},
			{"GET", "/v1/images/{name}/slim", answer(o.imageSlim)},
			{"POST", "/v1/images/{name}/versions", answer(o.addVersion)},
			{"DELETE", "/v1/images/{name}/versions/{version}", answer(o.deleteVersion)},
			{"PUT", "/v1/images/{name}/tags/{tag}", answer(o.setTag)},
			{"DELETE", "/v1/images/{name}/tags/{tag}", answer(o.deleteTag)},
			{"GET", "/v1/store/usage", answer(o.storeUsage)},
			{"POST", "/v1/store/collect", answer(o.collectStore)},
			{"GET", "/v1/store/versions/{digest}", answer(o.storedVersion)},
			{"POST", "/v1/store/versions", o.putVersion},
			{"POST", "/v1/store/missing", answer(o.missingObjects)},
			{"GET", "/v1/store/objects/{id}", o.storedObject},
			{"POST", "/v1/store/objects", o.addObjects},
			{"GET", "/v1/boots", answer(o.listBoots)},
			{"GET", "/v1/boots/failed", answer(o.listFailed)},
			{"GET", "/v1/boots/{id}", answer(o.showBoot)},
			{"GET", "/v1/history", answer(o.listHistory)},
			{"GET", "/v1/history/figures", answer(o.bootFigures)},
			{"GET", "/v1/history/compare", answer(o.compareBoots)},
			{"GET", "/v1/history/samples", answer(o.samples)},
			{"GET", "/v1/history/senders", answer(o.senders)},
			{"GET", "/v1/events", answer(o.listEvents)},
			{"GET", "/v1/events/stream", o.streamEvents},
			{"GET", "/v1/leases", answer(o.listLeases)},
			{"GET", "/v1/sd", answer(o.scrapeTargets)},
			{"GET", "/v1/keys", answer(o.showKeys)},
			{"POST", "/v1/keys", answer(o.createKey)},
			{"POST", "/v1/keys/{name}/rotate", answer(o.rotateKey)},
			{"POST", "/v1/keys/{name}/revoke", answer(o.revokeKey)},
			{"POST", "/v1/signatures", answer(o.addSignature)},
			{"POST", "/v1/media", o.createMedium},
			{"GET", "/v1/policy", answer(o.showPolicy)},
			{"PUT", "/v1/policy", answer(o.setPolicy)},
			{"GET", "/v1/fleet", answer(o.exportFleet)},
			{"PUT", "/v1/fleet", answer(o.applyFleet)},
		},
	)
}

// operatorRoutes registers the operator's API. auth is put around every route: nothing on the socket, the check of a
// token on the control channel. The description is for everybody.
func (o *operator) operatorRoutes(m *mux, auth func(handler) handler) {
	reach := reaches()
	for _, r := range o.operatorList() {
		if r.path == descriptionPath {
			m.handle(r.method+" "+r.path, r.handle)
			continue
		}
		around := []func(handler) handler{auth}
		if isWrite(r.method, r.path) {
			around = append(around, o.audited)
		}
		m.handle(
			r.method+" "+r.path,
			r.handle,
			append(around, takes(needs(r.method, r.path)), confined(reach[r.method+" "+r.path]))...)
	}
	m.handle("/v1/", func(_ http.ResponseWriter, r *http.Request) error {
		return api.NewError(api.NotFound, "no such request: "+r.Method+" "+r.URL.Path, "see "+descriptionPath)
	}, auth)
}

// answer makes a handler of a function that returns what to send; nil is "done, nothing to say".
func answer(ask func(*http.Request) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, err := ask(r)
		if err != nil {
			return err
		}
		if v == nil {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return reply(w, v)
	}
}

// body reads the JSON of a request.
func body[T any](r *http.Request) (T, error) { return decode[T](nil, r) }

// checked makes the error of a validation a refusal.
func checked(err error) error {
	if err == nil {
		return nil
	}
	return api.NewError(api.BadRequest, err.Error(), "")
}

// refused is a refusal of what the caller asked.
func refused(message, hint string) error { return api.NewError(api.BadRequest, message, hint) }

// withHint makes an error a refusal with a hint.
func withHint(err error, hint string) error {
	refusal := apiError(err)
	refusal.Hint = hint
	return refusal
}

// number reads a query parameter that is a number; absent is the default.
func number(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, refused("parameter "+name+": "+strconv.Quote(text)+" is not a number", "")
	}
	return n, nil
}
