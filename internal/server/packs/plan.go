package packs

import (
	"slices"
	"strings"
	"time"

	"pando/internal/build/packer"
	"pando/internal/image/bootpack"
)

// When a pack is made, and when it is made again.
const (
	// mergeBoots is of how many boots a pack is made at least. One boot alone may have been odd: somebody logged in
	// early, or a file system was checked.
	mergeBoots = 2

	// settledBoots is of how many boots a pack is made that is to stay. Of two boots it has what either read; of
	// three, not what one of them did alone, so it is made once more if that is worth it.
	settledBoots = 3

	// judgeBoots is how many of the boots since a pack was made must be known to judge it, and judgeLast of how
	// many the median counts: one odd boot makes no new pack.
	judgeBoots, judgeLast = 2, 3

	// A pack fits while it has at least minHits of what boots read, and at most maxWaste of it is not read. Two
	// boots of the same machine read the same but for a few blocks, so beyond these something has changed: what the
	// group's config files start, or the hardware. A miss costs a round trip and a whole chunk, so few are allowed;
	// waste costs bandwidth, and some of it comes by itself where hardware is mixed.
	minHits  = 0.92
	maxWaste = 0.20

	// minGain is by how much, of what boots read, misses and waste together must shrink for a new pack to be worth it.
	// Otherwise boots are not alike, and another recording is as good as this one.
	minGain = 0.02

	// A hardware class gets a pack of its own when the one for all fits it worse than this. Drivers and firmware
	// are a few MB; below that another pack only keeps machines from sharing pieces.
	classHits  = 0.95
	classWaste = 0.15
)

// measured is a trace that can be compared.
type measured struct {
	Trace
	rec packer.Recording // without blocks that are zeros
}

// packJob is a pack to be made from traces.
type packJob struct {
	class  string
	why    string
	order  packer.Order
	boots  int
	before *bootpack.Map // whose pieces nodes have so far; nil: none
}

// packNow is a pack that a version has.
type packNow struct {
	bootpack.Record
	pack  bootpack.Map
	order packer.Order
}

// planPacks decides which packs of a version to make of its traces, newest first. has are the packs that it has, by
// class.
func planPacks(traces []measured, has map[string]packNow) []packJob {
	var jobs []packJob
	if j, ok := planPack("", traces, has); ok {
		jobs = append(jobs, j)
	}
	byClass := map[string][]measured{}
	for _, t := range traces {
		byClass[t.Class] = append(byClass[t.Class], t)
	}
	general, ok := has[""]
	if len(byClass) < 2 || !ok || general.Boots == 0 || len(jobs) > 0 {
		return jobs // one class needs no pack of its own, and a new one for all comes first
	}
	for class, own := range byClass {
		if class == "" || len(own) < mergeBoots {
			continue
		}
		if _, ok := has[class]; !ok && !apart(general.order, own) {
			continue
		}
		if j, ok := planPack(class, own, has); ok {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b packJob) int { return strings.Compare(a.class, b.class) })
	return jobs
}

// planPack decides about the pack of one class.
func planPack(class string, traces []measured, has map[string]packNow) (packJob, bool) {
	now, ok := has[class]
	if len(traces) < mergeBoots {
		return packJob{}, false
	}
	j := packJob{class: class, boots: len(traces), before: before(has, class)}
	switch {
	case !ok:
		j.why = "it has none"
	case now.Boots == 0:
		j.why = "it was carried over from another version"
	case asked(traces, now.Made):
		j.order, j.why = merge(traces), "an operator asked for a longer recording"
		return j, true
	case !fits(now.order, since(traces, now.Made)):
		j.why = "boots read something else by now"
	case now.Boots < settledBoots && len(traces) >= settledBoots:
		j.why = "more boots are known than it was made of"
	default:
		return packJob{}, false
	}
	j.order = merge(traces)
	if ok && now.Boots > 0 && cost(now.order, traces)-cost(j.order, traces) < minGain {
		return packJob{}, false
	}
	return j, true
}

// before is the pack whose pieces nodes of a class have so far, nil if there is none.
func before(has map[string]packNow, class string) *bootpack.Map {
	for _, c := range []string{class, ""} {
		if now, ok := has[c]; ok {
			return &now.pack
		}
	}
	return nil
}

// asked reports whether a trace that an operator asked for came after a pack was made.
func asked(traces []measured, made time.Time) bool {
	return slices.ContainsFunc(traces, func(t measured) bool { return t.Reached && t.Received.After(made) })
}

func merge(traces []measured) packer.Order {
	var recs []packer.Recording
	for _, t := range traces {
		recs = append(recs, t.rec)
	}
	return packer.Merge(recs)
}

// since picks the newest of the traces that were recorded after a pack was made.
func since(traces []measured, made time.Time) []measured {
	i := slices.IndexFunc(traces, func(t measured) bool { return !t.Received.After(made) })
	if i < 0 {
		i = len(traces)
	}
	return traces[:min(i, judgeLast)]
}

// fits reports whether a pack still serves boots well; with too few to judge, it does.
func fits(pack packer.Order, traces []measured) bool {
	if len(traces) < judgeBoots {
		return true
	}
	hits, waste := medians(pack, traces)
	return hits >= minHits && waste <= maxWaste
}

// apart reports whether a hardware class reads something else than the pack for all has.
func apart(pack packer.Order, traces []measured) bool {
	hits, waste := medians(pack, traces)
	return hits < classHits || waste > classWaste
}

// medians returns the median share of what boots read that is in the pack, and of the pack until booted that they
// did not read. What the pack has for after booted does not count as waste: it is sent last, and few nodes are recorded
// for so long.
func medians(pack packer.Order, traces []measured) (hits, waste float64) {
	var h, w []float64
	for _, t := range traces {
		f := packer.FitOf(pack, t.rec.Reads)
		h = append(h, share(f.Hits, f.Hits+f.Misses))
		w = append(w, share(f.Wasted, f.Hits+f.Wasted))
	}
	slices.Sort(h)
	slices.Sort(w)
	return h[len(h)/2], w[(len(w)-1)/2]
}

// cost is what a pack has wrong until booted, as a share of what the boots read.
func cost(pack packer.Order, traces []measured) float64 {
	wrong, read := int64(0), int64(0)
	for _, t := range traces {
		f := packer.FitOf(pack, t.rec.Reads)
		wrong, read = wrong+f.Misses+f.Wasted, read+f.Hits+f.Misses
	}
	return share(wrong, read)
}

// share is a part of a whole, 0 of nothing.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
