package packs

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/chunk"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// maxTraced is how many blocks of a read trace are kept: 1 GiB. A desktop's boot reads some hundred MB. More would cost
// the server memory.
const maxTraced = 1 << 30 / chunk.BlockSize

// NodeTrace answers POST /v1/node/trace: it keeps the trace of a boot and has the boot pack of its version checked.
func (a *API) NodeTrace(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.TraceRequest](w, r)
	if err != nil {
		return err
	}
	b, err := a.sessionBoot(r, req)
	if err != nil {
		return err
	}
	k, err := a.traceOf(r, b, req)
	if err != nil {
		return err
	}
	if !req.Partial { // a partial trace says nothing about what it missed
		if err := a.maker.traces.receive(b.Version, k, a.maker.now); err != nil {
			return err
		}
		a.maker.Look(b.Version)
		if err := a.recordings.done(b.Node, k.Until); err != nil {
			return err
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// sessionBoot returns the boot of a session. It must be the boot that the request names.
func (a *API) sessionBoot(r *http.Request, req api.TraceRequest) (b registry.Boot, err error) {
	session := registry.HashSecret(httpapi.Credential(r, "Bearer"))
	err = a.registry.View(r.Context(), func(tx *registry.Tx) error {
		b, err = tx.BootBySession(session)
		return err
	})
	switch {
	case errors.Is(err, registry.ErrNotFound) || err == nil && (session.IsZero() || b.ID != req.Boot):
		return b, api.NewError(
			api.Unauthorized,
			"the session is not of this boot",
			"a newer boot of the node ends the older one's session",
		)
	case err == nil && b.Version != req.Version:
		return b, api.NewError(
			api.BadRequest,
			fmt.Sprintf("read trace: boot %s is of version %s", b.ID, b.Version.Short()),
			"",
		)
	}
	return b, err
}

// traceOf checks a trace and adds what the server knows about the boot.
func (a *API) traceOf(r *http.Request, b registry.Boot, req api.TraceRequest) (k Trace, err error) {
	m, err := a.maker.manifest(b.Version)
	if err != nil {
		return k, err
	}
	reads, err := trace.DecodeReads(req.Reads)
	if err != nil {
		return k, api.NewError(api.BadRequest, err.Error(), "")
	}
	reads = within(reads, uint64(m.Root.Size/chunk.BlockSize))
	if min(req.Hits, req.Misses, req.Wasted, req.WastedLater) < 0 {
		return k, api.NewError(api.BadRequest, "read trace: a negative count", "")
	}
	events, err := a.registry.Events(r.Context(), registry.EventFilter{Boot: b.ID})
	if err != nil {
		return k, err
	}
	return Trace{
		Boot: b.ID, Node: b.Node, Class: fleetview.BootClass(b), Moments: momentsOf(events, req.Began),
		Reads: trace.EncodeReads(reads),
		Pack:  httpapi.Clip(req.Pack, 128), Hits: req.Hits, Misses: req.Misses, Wasted: req.Wasted,
		WastedLater: req.WastedLater,
		Until:       httpapi.Clip(req.Until, 64), Reached: req.Reached && req.Until != "",
	}, nil
}

// within drops reads beyond the end of the root, and all after maxTraced blocks.
func within(reads []trace.Read, blocks uint64) []trace.Read {
	total := uint64(0)
	reads = slices.DeleteFunc(reads, func(r trace.Read) bool { return r.End() > blocks })
	for i, r := range reads {
		if total += uint64(r.Blocks); total > maxTraced {
			return reads[:i]
		}
	}
	return reads
}

// momentsOf returns what a boot reached after its device was attached: the node's stages and the image's own marks.
// Times count from began, the first reads: the stage Device may end seconds later, when it waits for a disk.
func momentsOf(events []trace.Event, began time.Duration) []moment {
	attached := slices.IndexFunc(
		events,
		func(e trace.Event) bool { return e.Stage == trace.Device && e.Kind == trace.End },
	)
	if attached < 0 {
		return nil
	}
	from := events[attached].Offset
	if began > 0 && began < from { // a node of an older release does not tell it
		from = began
	}
	var out []moment
	for _, e := range events {
		rank := trace.Rank(e.Stage)
		node := rank > trace.Rank(trace.Device) && rank <= trace.Rank(trace.Booted) && e.Kind == trace.End
		if (node || rank < 0 && e.Kind != trace.Fail) && e.Offset >= from && len(out) < maxMoments {
			out = append(out, moment{e.Stage, e.Offset - from})
		}
	}
	slices.SortStableFunc(out, func(a, b moment) int { return cmp.Compare(a.At, b.At) })
	return out
}

// maxMoments bounds the stages and marks that are kept of a boot.
const maxMoments = 64
