package rollout

import (
	"testing"
	"time"

	"pando/internal/fleet"
)

// A rollout uses its method first, and then a reboot by firmware, so that machines that cannot follow still get to the
// new version later. A rollback does the same.
func TestMethodFallsBack(t *testing.T) {
	for name, c := range map[string]struct {
		deaf bool
		flaw flaw
		want fleet.RolloutState
	}{
		"they follow":          {false, sound, fleet.RolloutDone},
		"they do not":          {true, sound, fleet.RolloutDone},
		"back, they follow":    {false, brokenUnit, fleet.RolloutRolledBack},
		"back, they do not":    {true, brokenUnit, fleet.RolloutRolledBack},
		"it never boots, deaf": {true, neverBoots, fleet.RolloutRolledBack},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(
				t,
				1,
				4,
				fleet.RolloutPlan{Canary: "1", Wave: "100%", MaxUnavailable: "100%", Method: fleet.MethodAuto,
					Gates: []fleet.Gate{fleet.GateBooted, fleet.GateUnits}},
				c.flaw,
			)
			w.deaf = c.deaf
			asked := map[fleet.BootMethod]int{}
			last := map[fleet.BootID]fleet.BootMethod{}
			for range 2000 {
				r, a := w.step(10 * time.Second)
				for _, ask := range a.Reboot {
					asked[ask.Method]++
					if last[ask.Boot] == fleet.MethodReboot && ask.Method != fleet.MethodReboot {
						t.Fatalf("%s is asked to reboot, and then %s", ask.Node, ask.Method)
					}
					last[ask.Boot] = ask.Method
				}
				if !r.State.Live() {
					break
				}
			}
			if r := w.rollout(); r.State != c.want || asked[fleet.MethodAuto] == 0 ||
				asked[fleet.MethodReboot] > 0 != c.deaf {
				t.Errorf("asked %v\n%s", asked, dump(r))
			}
		})
	}
}
