package boot

import (
	"errors"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
)

// TestShortOfDrivers: a boot whose adapter did not come up ends soon if the server can send more drivers to the next.
func TestShortOfDrivers(t *testing.T) {
	mac, other := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}
	for name, c := range map[string]struct {
		short bool
		all   []nic
		want  bool
	}{
		"every driver, no adapter":  {false, nil, false},
		"few drivers, no adapter":   {true, nil, true},
		"few drivers, another one":  {true, []nic{{MAC: other}}, true},
		"few drivers, the one":      {true, []nic{{MAC: other}, {MAC: mac}}, false},
		"every driver, another one": {false, []nic{{MAC: other}}, false},
	} {
		m := &machine{config: api.BootConfig{MAC: mac, ShortDrivers: c.short}, all: c.all,
			modules: newModuleLoader(&driverIndex{}, CommandLine{})}
		if got := m.shortOfDrivers(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if err := m.noAdapter(errors.New("cause")); isFinal(err) != c.want || c.want != (hintOf(err) == shortHint) {
			t.Errorf("%s: final %t, hint %q", name, isFinal(err), hintOf(err))
		}
	}
}
