package systemd

import (
	"slices"
	"strings"
	"time"

	"pando/internal/api"
)

// How many units of a boot are worth keeping: those that took longest, and the end of the critical chain.
const (
	slowestUnits = 12
	longestChain = 24
)

// unitStart is a unit's start, and after which others it comes.
type unitStart struct {
	api.UnitTime
	after []string
}

// unitStarts reads blocks of properties, one block a unit, and returns the units that were active when the boot was
// over.
func unitStarts(text string, finish time.Duration) []unitStart {
	var units []unitStart
	for block := range strings.SplitSeq(text, "\n\n") {
		p := properties(block)
		u := unitStart{api.UnitTime{Unit: p["Id"], Start: microseconds(p["InactiveExitTimestampMonotonic"]),
			Active: microseconds(p["ActiveEnterTimestampMonotonic"])}, strings.Fields(p["After"])}
		if u.Unit != "" && u.Start > 0 && u.Active >= u.Start && u.Active <= finish {
			units = append(units, u)
		}
	}
	return units
}

// critical is the chain of units that the target waited for, itself first: of those that a unit comes after, the
// one that was active last. It is the chain that `systemd-analyze critical-chain` shows.
func critical(units []unitStart, target string) (chain []string) {
	by := map[string]unitStart{}
	for _, u := range units {
		by[u.Unit] = u
	}
	for u, ok := by[target]; ok && len(chain) < longestChain && !slices.Contains(chain, u.Unit); {
		chain = append(chain, u.Unit)
		var last unitStart
		for _, name := range u.after {
			if before := by[name]; before.Active > last.Active && before.Active <= u.Active {
				last = before
			}
		}
		u, ok = last, last.Unit != ""
	}
	return chain
}

// worthKeeping are the units that took longest to start, longest first, and then the others of the chain.
func worthKeeping(units []unitStart, chain []string) (out []api.UnitTime) {
	slices.SortStableFunc(units, func(a, b unitStart) int {
		return int((b.Active - b.Start) - (a.Active - a.Start))
	})
	slow := 0
	for _, u := range units {
		u.Chain = slices.Contains(chain, u.Unit)
		if long := u.Active > u.Start && slow < slowestUnits; long || u.Chain {
			out = append(out, u.UnitTime)
			slow++
		}
	}
	return out
}
