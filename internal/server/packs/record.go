package packs

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// listRecordings answers GET /v1/recordings.
func (a *API) listRecordings(r *http.Request) (any, error) {
	own, err := fleetview.OwnNodes(r.Context(), a.registry)
	if err != nil {
		return nil, err
	}
	out := api.RecordingList{Recordings: []api.Recording{}}
	wishes := a.recordings.all()
	for _, node := range slices.Sorted(maps.Keys(wishes)) {
		out.Recordings = append(
			out.Recordings,
			api.Recording{Node: node, Until: wishes[node].Until, Asked: wishes[node].Asked},
		)
	}
	versions, err := a.maker.traces.Versions()
	if err != nil {
		return nil, err
	}
	var kept []api.Recording
	for _, v := range versions {
		traces, err := a.maker.traces.List(v)
		if err != nil {
			return nil, err
		}
		for _, k := range traces {
			if k.Until != "" {
				kept = append(kept, recordingView(v, k))
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b api.Recording) int { return b.Received.Compare(a.Received) })
	out.Recordings = append(out.Recordings, kept...)
	if own != nil {
		out.Recordings = slices.DeleteFunc(out.Recordings, func(x api.Recording) bool { return !own[x.Node] })
	}
	return out, nil
}

func recordingView(v fleet.Digest, k Trace) api.Recording {
	r := api.Recording{Node: k.Node, Until: k.Until, Boot: k.Boot, Version: v, Received: k.Received, Reached: k.Reached}
	reads, err := trace.DecodeReads(k.Reads)
	if err != nil {
		return r // it was valid when it was kept
	}
	seen := map[uint32]bool{}
	for _, read := range reads {
		for b := read.Start; uint64(b) < read.End(); b++ {
			seen[b] = true
		}
	}
	r.Reads, r.Read = len(reads), int64(len(seen))*chunk.BlockSize
	return r
}

// setRecording answers PUT /v1/nodes/{name}/recording.
func (a *API) setRecording(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.RecordingSet](r)
	if err != nil {
		return nil, err
	}
	req.Until = cmp.Or(fleet.MarkName(req.Until), req.Until) // only an empty mark removes the request
	if err := recordable(req.Until); err != nil {
		return nil, err
	}
	var node fleet.Node
	err = a.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		node, err = fleetview.FindNode(tx, r.PathValue("name"))
		return err
	})
	if err != nil {
		return nil, err
	}
	w := Wish{Until: req.Until}
	if w.Until != "" {
		w.Asked = a.maker.now().UTC()
	}
	return api.Recording{Node: node.Name, Until: w.Until, Asked: w.Asked}, a.recordings.Set(node.Name, w)
}

// recordable returns an error if a boot cannot be recorded until that mark.
func recordable(mark string) error {
	if mark == "" {
		return nil
	}
	if err := fleet.ValidName("mark", mark); err != nil {
		return httpapi.BadRequest(err.Error(), "name a mark such as firefox-ready, the argument of "+
			"`pando-init mark` on the node")
	}
	if trace.Rank(trace.Stage(mark)) >= 0 {
		return httpapi.BadRequest(
			fmt.Sprintf("mark %q is a stage of every boot", mark),
			"every boot is recorded until it has booted; name a mark that the image makes later",
		)
	}
	return nil
}
