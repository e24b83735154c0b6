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
	// mergeBoots is the least number of boots for a pack. A single boot may be unusual: a user logged in early, or a
	// file system was checked.
	mergeBoots = 2

	// settledBoots is the number of boots for a final pack. A pack of two boots has all that either read. A pack of
	// three leaves out what only one read, so it is made once more if that is worth it.
	settledBoots = 3

	// judgeBoots is how many boots since a pack was made must be known to judge it. The median of the latest judgeLast
	// counts, so that one unusual boot causes no new pack.
	judgeBoots, judgeLast = 2, 3

	// A pack fits while it has at least minHits of what boots read, and at most maxWaste of it is not read. Beyond
	// that, the group's config files or the hardware have changed. Few misses are allowed, because each costs a round
	// trip and a whole chunk. Some waste is normal with mixed hardware.
	minHits  = 0.92
	maxWaste = 0.20

	// minGain is the least gain of a new pack: the decrease of misses plus waste, as a share of what boots read. With
	// less, the boots differ from each other, and no pack is better.
	minGain = 0.02

	// A hardware class gets its own pack when the general one fits it worse than this. Drivers and firmware are a few
	// MB; a pack for less would only keep machines from sharing pieces.
	classHits  = 0.95
	classWaste = 0.15
)

// measured is a trace with its decoded recording.
type measured struct {
	Trace
	rec packer.Recording // without blocks of zeros
}

// packJob is a pack to be made from traces.
type packJob struct {
	class  string
	why    string
	order  packer.Order
	boots  int
	before *bootpack.Map // present pack, whose pieces nodes have; nil: none
}

// packNow is a pack that a version has.
type packNow struct {
	bootpack.Record
	pack  bootpack.Map
	order packer.Order
}

// planPacks decides which packs of a version to make from its traces, newest first. has are the present packs, by
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
		return jobs // a single class needs no pack of its own, and a new general pack comes first
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

// planPack decides whether to make the pack of one class.
func planPack(class string, traces []measured, has map[string]packNow) (packJob, bool) {
	now, ok := has[class]
	if len(traces) < mergeBoots {
		return packJob{}, false
	}
	j := packJob{class: class, boots: len(traces), before: before(has, class)}
	switch {
	case !ok:
		j.why = "there is none yet"
	case now.Boots == 0:
		j.why = "the present one was carried over from another version"
	case asked(traces, now.Made):
		j.order, j.why = merge(traces), "an operator asked for a longer recording"
		return j, true
	case !fits(now.order, since(traces, now.Made)):
		j.why = "boots now read other blocks"
	case now.Boots < settledBoots && len(traces) >= settledBoots:
		j.why = "traces of more boots are known"
	default:
		return packJob{}, false
	}
	j.order = merge(traces)
	if ok && now.Boots > 0 && cost(now.order, traces)-cost(j.order, traces) < minGain {
		return packJob{}, false
	}
	return j, true
}

// before returns the pack whose pieces nodes of a class have so far, or nil.
func before(has map[string]packNow, class string) *bootpack.Map {
	for _, c := range []string{class, ""} {
		if now, ok := has[c]; ok {
			return &now.pack
		}
	}
	return nil
}

// asked reports whether a trace that an operator requested arrived after a pack was made.
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

// since returns the newest traces, at most judgeLast, that arrived after a pack was made.
func since(traces []measured, made time.Time) []measured {
	i := slices.IndexFunc(traces, func(t measured) bool { return !t.Received.After(made) })
	if i < 0 {
		i = len(traces)
	}
	return traces[:min(i, judgeLast)]
}

// fits reports whether a pack still serves boots well. With too few boots to judge, it does.
func fits(pack packer.Order, traces []measured) bool {
	if len(traces) < judgeBoots {
		return true
	}
	hits, waste := medians(pack, traces)
	return hits >= minHits && waste <= maxWaste
}

// apart reports whether a hardware class differs too much from the general pack.
func apart(pack packer.Order, traces []measured) bool {
	hits, waste := medians(pack, traces)
	return hits < classHits || waste > classWaste
}

// medians returns two medians over boots: the share of the reads that the pack has, and the share of the pack until
// booted that was not read. Blocks for after booted are no waste: they are sent last, and few nodes are recorded for so
// long.
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

// cost returns the misses and the waste until booted, as a share of what the boots read.
func cost(pack packer.Order, traces []measured) float64 {
	wrong, read := int64(0), int64(0)
	for _, t := range traces {
		f := packer.FitOf(pack, t.rec.Reads)
		wrong, read = wrong+f.Misses+f.Wasted, read+f.Hits+f.Misses
	}
	return share(wrong, read)
}

// share returns part divided by whole, or 0 if whole is 0.
func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
