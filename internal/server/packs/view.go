package packs

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/chunk"
	"pando/internal/imagefs"
	"pando/internal/trace"
)

// stageOf returns the first stage that a boot reached at or after a moment. It is "" when the boot's stages are not
// known.
func stageOf(moments []moment, at time.Duration) trace.Stage {
	if len(moments) == 0 {
		return ""
	}
	i := slices.IndexFunc(moments, func(m moment) bool { return m.At >= at })
	if i < 0 {
		return api.Later
	}
	return moments[i].Stage
}

// firstReads returns when each block was first read, in the newest boot that read it.
func firstReads(traces []measured) map[uint32]time.Duration {
	out := map[uint32]time.Duration{}
	for _, t := range slices.Backward(traces) { // newest first in traces, so the newest overwrites the others
		seen := map[uint32]bool{}
		for _, r := range t.rec.Reads {
			for b := r.Start; uint64(b) < r.End(); b++ {
				if !seen[b] {
					seen[b], out[b] = true, r.At
				}
			}
		}
	}
	return out
}

// fileViews sums what was read of each file, the largest sum first.
func fileViews(order packer.Order, root *imagefs.Map, traces []measured) []api.TraceFile {
	first := firstReads(traces)
	byPath := map[string]*api.TraceFile{}
	out := []*api.TraceFile{}
	for _, e := range order.Extents {
		for b := e.Start; uint64(b) < e.End(); b++ {
			file, ok := root.At(b)
			if !ok || file.Dir {
				file = imagefs.File{} // inodes and directories are counted together
			}
			f := byPath[file.Path]
			if f == nil {
				f = &api.TraceFile{Path: file.Path, Size: file.Size, First: first[b]}
				byPath[file.Path] = f
				out = append(out, f)
			}
			f.Read += chunk.BlockSize
			f.First = min(f.First, first[b])
		}
	}
	slices.SortFunc(out, func(a, b *api.TraceFile) int {
		return cmp.Or(cmp.Compare(b.Read, a.Read), strings.Compare(a.Path, b.Path))
	})
	views := make([]api.TraceFile, len(out))
	for i, f := range out {
		if views[i] = *f; len(traces) > 0 {
			views[i].Stage = stageOf(traces[0].Moments, f.First)
		}
	}
	return views
}

// stageViews sums what the newest boot read until each stage.
func stageViews(traces []measured) []api.TraceStage {
	out := []api.TraceStage{}
	if len(traces) == 0 || len(traces[0].Moments) == 0 {
		return out
	}
	seen := map[uint32]bool{}
	for _, r := range traces[0].rec.Reads { // ordered by time, and so by stage
		stage := stageOf(traces[0].Moments, r.At)
		if len(out) == 0 || out[len(out)-1].Stage != stage {
			out = append(out, api.TraceStage{Stage: stage})
		}
		s := &out[len(out)-1]
		s.Requests++
		for b := r.Start; uint64(b) < r.End(); b++ {
			if !seen[b] {
				seen[b] = true
				s.Read += chunk.BlockSize
			}
		}
	}
	return out
}
