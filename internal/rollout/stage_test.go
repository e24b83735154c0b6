package rollout

import (
	"testing"
	"time"

	"pando/internal/fleet"
)

// Waiting nodes of the present wave and the next one fetch the version ahead, even while no window is open. Each is
// told until it has the version. Nodes of a rollout by reboot are never told.
func TestStagesAhead(t *testing.T) {
	for method, want := range map[fleet.BootMethod]int{fleet.MethodAuto: 3, fleet.MethodSoftReboot: 3,
		fleet.MethodKexec: 0, fleet.MethodReboot: 0, "": 0} {
		w := newWorld(
			t,
			1,
			6,
			fleet.RolloutPlan{
				Canary:         "1",
				Wave:           "2",
				MaxUnavailable: "100%",
				Method:         method,
				Gates:          []fleet.Gate{fleet.GateBooted},
			},
			sound,
		)
		w.closed = true
		_, a := w.step(10 * time.Second)
		if len(a.Stage) != want || len(a.Reboot) > 0 {
			t.Errorf("%q: %d nodes are to fetch ahead, want %d", method, len(a.Stage), want)
		}
		for _, ask := range a.Stage {
			w.find(ask.Node).staged = digest(newImage)
		}
		if _, a = w.step(10 * time.Second); len(a.Stage) > 0 {
			t.Errorf("%q: %+v have it, and are asked", method, a.Stage)
		}
		w.closed = false
		staged := want
		for range 500 {
			r, a := w.step(10 * time.Second)
			for _, ask := range a.Stage {
				if m := w.find(ask.Node); m.staged == "" {
					m.staged = digest(newImage)
					staged++
				}
			}
			if !r.State.Live() {
				break
			}
		}
		if r := w.rollout(); r.State != fleet.RolloutDone || want > 0 != (staged == 6) {
			t.Errorf("%q: %d fetched ahead\n%s", method, staged, dump(r))
		}
	}
}
