package nodeapi

import (
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
)

// A write layer that fills up is reported once at each level, and again in the next boot.
func TestFullnessIsToldOnce(t *testing.T) {
	var l levels
	first, second := registry.Boot{ID: "1", MAC: fleet.MAC{2}}, registry.Boot{ID: "2", MAC: fleet.MAC{2}}
	for i, x := range []struct {
		boot registry.Boot
		used int64
		want bool
	}{{first, 79, false}, {first, 80, true}, {first, 94, false}, {first, 95, true}, {first, 100, false},
		{first, 10, false}, {first, 85, true},
		{second, 85, true}, {second, 86, false}} {
		st := api.NodeStatus{UpperUsed: x.used, UpperTotal: 100}
		if got := l.rise(x.boot, st.Fullness()); got != x.want {
			t.Errorf("step %d, %d %% full: told %v", i, x.used, got)
		}
	}
	st := api.NodeStatus{UpperUsed: 10, UpperTotal: 100, FilesUsed: 99, FilesTotal: 100}
	if got := fullnessText(st); st.Fullness() != fleet.Full ||
		got != "the write layer has 99 of the 100 files that it can have" {
		t.Errorf("%v: %s", st.Fullness(), got)
	}
}
