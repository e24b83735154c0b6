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

// unitStarts reads blocks of properties, one block a unit, and returns the units whose start was over when the boot
// was. As `systemd-analyze blame` has it: a start ends when the unit is active or, of one that never was (a oneshot
// without RemainAfterExit, one that failed), when it has ended.
func unitStarts(text string, finish time.Duration) []unitStart {
	var units []unitStart
	for block := range strings.SplitSeq(text, "\n\n") {
		p := properties(block)
		u := unitStart{api.UnitTime{Unit: p["Id"], Start: microseconds(p["InactiveExitTimestampMonotonic"]),
			Active: microseconds(p["ActiveEnterTimestampMonotonic"])}, strings.Fields(p["After"])}
		if u.Active < u.Start {
			u.Active = microseconds(p["InactiveEnterTimestampMonotonic"])
		}
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

// worthKeeping are the units that took longest to start, longest first, and then the others of the chain. They are
// taken one by one: a sort is seven times as much program.
func worthKeeping(units []unitStart, chain []string) (out []api.UnitTime) {
	for n := range units {
		longest := n
		for i, u := range units[n:] {
			if u.took() > units[longest].took() {
				longest = n + i
			}
		}
		u := units[longest]
		copy(units[n+1:longest+1], units[n:longest])
		units[n] = u
		u.Chain = slices.Contains(chain, u.Unit)
		if n < slowestUnits && u.took() > 0 || u.Chain {
			out = append(out, u.UnitTime)
		}
	}
	return out
}

func (u unitStart) took() time.Duration { return u.Active - u.Start }
