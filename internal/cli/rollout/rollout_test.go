package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/listing"
	"pando/internal/testkit"
	"pando/internal/testkit/clikit"
)

// TestRolloutTexts: the live table of a rollout, cut to the terminal; the waves of a new rollout; and the state of each
// node.
func TestRolloutTexts(t *testing.T) {
	from, to := fleet.Ref("lab@sha256:"+strings.Repeat("1", 64)), fleet.Ref("lab@sha256:"+strings.Repeat("2", 64))
	r := api.Rollout{
		Rollout: fleet.Rollout{
			ID:      "lab-3",
			Group:   "lab",
			From:    from,
			To:      to,
			Asked:   "lab:next",
			State:   fleet.RolloutRollingBack,
			Reason:  "node pc2: units failed that had not failed before: display.service",
			Wave:    1,
			Waves:   3,
			Clock:   10 * time.Minute,
			Usual:   50 * time.Second,
			Who:     "token desk",
			Created: clikit.Start(),
			Plan:    fleet.RolloutPlan{Drain: "free"}.WithDefaults(),
		},
		Phases: map[fleet.RolloutPhase]int{},
	}
	for i, p := range []fleet.RolloutPhase{fleet.PhaseReturned, fleet.PhaseRebooting, fleet.PhaseLost,
		fleet.PhaseWaiting, fleet.PhaseWaiting, fleet.PhaseAway} {
		n := fleet.RolloutNode{
			Node:   fmt.Sprintf("pc%d", i+1),
			Wave:   i / 2,
			Target: from,
			Phase:  p,
			At:     9 * time.Minute,
			Silent: i == 5,
		}
		if p == fleet.PhaseLost {
			n.Reason = "it does not come back; switch it off and on: its next boot gets the version before"
		}
		r.Nodes, r.Phases[p] = append(r.Nodes, n), r.Phases[p]+1
	}
	env, out := clikit.Env()
	table := rolloutTable(r, 80, 24, clikit.Start().Add(time.Minute))
	fmt.Fprintf(out, "%s\n", strings.ReplaceAll(strings.ReplaceAll(table, "\x1b[K", ""), "\r", ""))
	printWaves(env, r)
	env.Printf("\n")
	listing.Rollouts(out, []api.Rollout{r}, env.Now())
	env.Printf("\n")
	printRollout(env, r)
	testkit.Golden(t, *update, "rollout.txt", out.String())
}
