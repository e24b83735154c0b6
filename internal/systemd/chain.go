package systemd

import (
	"slices"
	"strings"
	"time"

	"pando/internal/api"
)

// Limits of the reported units: those that took longest to start, and the end of the critical chain.
const (
	slowestUnits = 12
	longestChain = 24
)

// unitStart is a unit's start, and the units that it is ordered after.
type unitStart struct {
	api.UnitTime
	after []string
}

// unitStarts parses blocks of properties, one block for each unit, and returns the units that had started before the
// boot finished. As in `systemd-analyze blame`, a start ends when the unit becomes active or, if it never does (a
// oneshot without RemainAfterExit, a failure), when it ends.
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

// critical returns the chain of units that the target waited for, beginning with the target. The next unit is the one
// of After= that became active last. `systemd-analyze critical-chain` shows the same chain.
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

// worthKeeping returns the units that took longest to start, longest first, and the remaining ones of the chain. It
// selects them one by one, because a sort would make the program larger.
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
