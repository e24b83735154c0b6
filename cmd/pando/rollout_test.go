package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
)

// TestRolloutTexts: what people see of a rollout: the live table, cut to the terminal; the waves of one that
// begins; and each node.
func TestRolloutTexts(t *testing.T) {
	from, to := fleet.Ref("lab@sha256:"+strings.Repeat("1", 64)), fleet.Ref("lab@sha256:"+strings.Repeat("2", 64))
	r := api.Rollout{
		Rollout: fleet.Rollout{
			ID:      "lab-3",
			Group:   "lab",
			From:    from,
			To:      to,
			Asked:   "lab:next",
			State:   fleet.RolloutReturning,
			Reason:  "node pc2: units failed that had not failed before: display.service",
			Wave:    1,
			Waves:   3,
			Clock:   10 * time.Minute,
			Usual:   50 * time.Second,
			Who:     "token desk",
			Created: zero,
			Plan:    fleet.RolloutPlan{Drain: "free"}.WithDefaults(),
		},
		Phases: map[fleet.RolloutPhase]int{},
	}
	for i, p := range []fleet.RolloutPhase{fleet.PhaseReturned, fleet.PhaseRebooting, fleet.PhaseLost, fleet.PhaseWaiting, fleet.PhaseWaiting, fleet.PhaseAway} {
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
	a, out := testApp()
	table := rolloutTable(r, 80, 24, zero.Add(time.Minute))
	a.printf("%s\n", strings.ReplaceAll(strings.ReplaceAll(table, "\x1b[K", ""), "\r", ""))
	a.printWaves(r)
	a.printf("\n")
	printRollouts(out, []api.Rollout{r}, a.now())
	a.printf("\n")
	a.printRollout(r)
	a.printf("\n")
	for _, d := range []api.NodeDiff{
		{Node: "pc1", Desired: version1}, {Node: "pc2", Running: version1}, {Node: "pc3", Running: version1, Desired: version1},
		{Node: "pc4", Running: version1, Desired: version2, Changes: true, KernelWas: "6.1.0-48", KernelIs: "6.1.0-49", ArgsGone: []string{"quiet"},
			ArgsNew: []string{"nosmt"}, Method: fleet.MethodKexec, MethodWhy: "the kernel or its drivers " +
				"change", Drivers: true, Root: true, RootFetches: 12_300_000, Packages: []api.PackageChange{
				{Name: "a", Is: "1"}, {Name: "b", Was: "1"}, {Name: "c", Was: "1", Is: "2"}, {Name: "d", Was: "1", Is: "1", Files: 1}}},
		{Node: "pc5", Running: version1, Desired: version2, Changes: true, Root: true, Problem: "index page is " +
			"damaged"},
	} {
		a.printNodeDiff(d)
	}
	golden(t, "rollout.txt", out.String())
}

const (
	version1 fleet.Digest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	version2 fleet.Digest = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)
