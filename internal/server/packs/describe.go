package packs

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/image/bootpack"
	"pando/internal/imagefs"
	"pando/internal/registry"
)

// imageTrace answers GET /v1/images/{name}/trace: what boots of a version read.
func (a *API) imageTrace(r *http.Request) (any, error) {
	name := r.PathValue("name")
	ref := fleet.Ref(r.URL.Query().Get("ref"))
	if ref == "" {
		ref = fleet.Ref(name)
	}
	if of, _, _, err := ref.Split(); err != nil || of != name {
		return nil, httpapi.BadRequest(fmt.Sprintf("parameter ref: %q is no version of image %q", ref, name), "")
	}
	out := api.ImageTrace{Image: name}
	err := a.registry.View(r.Context(), func(tx *registry.Tx) (err error) {
		if err := fleetview.CheckRef(tx, ref); err != nil {
			return err
		}
		out.Version, err = tx.Resolve(ref)
		return err
	})
	if err != nil {
		return nil, err
	}
	own, err := fleetview.OwnNodes(r.Context(), a.registry)
	if err != nil {
		return nil, err
	}
	if out, err = a.maker.describe(registry.Whole(r.Context()), out); own != nil {
		out.Boots = slices.DeleteFunc(out.Boots, func(b api.TraceBoot) bool { return !own[b.Node] })
	}
	return out, err
}

// describe adds what is known of the version to out.
func (p *Maker) describe(ctx context.Context, out api.ImageTrace) (api.ImageTrace, error) {
	m, err := p.manifest(out.Version)
	if err != nil {
		return out, err
	}
	out.RootSize = m.Root.Size
	traces, err := p.measured(ctx, out.Version, m)
	if err != nil {
		return out, err
	}
	has, err := p.has(ctx, out.Version)
	if err != nil {
		return out, err
	}
	records, err := p.store.Packs(out.Version)
	if err != nil {
		return out, err
	}
	out.Boots, out.Packs = bootViews(traces), packViews(records)
	order := merge(traces)
	if len(traces) == 0 {
		order = has[""].order
	}
	if len(order.Extents) == 0 {
		out.Stages, out.Files, out.Advice = []api.TraceStage{}, []api.TraceFile{}, []api.TraceAdvice{}
		return out, nil
	}
	if out.Chunks, err = packer.ChunkBytes(ctx, p.store, m, order); err != nil {
		return out, err
	}
	root, err := imagefs.ReadMap(ctx, p.store, m)
	if err != nil {
		return out, err
	}
	out.Read = order.Blocks() * chunk.BlockSize
	out.Files = fileViews(order, root, traces)
	out.Stages = stageViews(traces)
	out.Advice = adviceOn(out.Files, out.Read)
	return out, nil
}

func bootViews(traces []measured) []api.TraceBoot {
	out := []api.TraceBoot{}
	for _, t := range traces {
		out = append(
			out,
			api.TraceBoot{Boot: t.Boot, Node: t.Node, Class: t.Class, Received: t.Received, Requests: len(t.rec.Reads),
				Read: merge(
					[]measured{t},
				).Blocks() *
					chunk.BlockSize, Pack: t.Pack, Hits: t.Hits, Misses: t.Misses, Wasted: t.Wasted,
				WastedLater: t.WastedLater},
		)
	}
	return out
}

func packViews(records []bootpack.Record) []api.Pack {
	out := []api.Pack{}
	for _, r := range records {
		out = append(
			out,
			api.Pack{
				Class:      r.Class,
				Sequence:   r.Sequence,
				Object:     r.Object.String(),
				Made:       r.Made,
				Boots:      r.Boots,
				From:       r.From,
				Pieces:     r.Pieces,
				Raw:        r.Raw,
				Stored:     r.Stored,
				BootSet:    cmp.Or(r.BootSet, r.Stored),
				BootPieces: cmp.Or(r.BootPieces, r.Pieces),
			},
		)
	}
	return out
}
