package initrd

import (
	"errors"
	"testing"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/kmod"
	"pando/internal/link"
	"pando/internal/problem"
)

// TestShortOfDrivers: a boot whose adapter did not appear ends soon if the server can send more drivers to the next
// boot.
func TestShortOfDrivers(t *testing.T) {
	mac, other := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}
	for name, c := range map[string]struct {
		short bool
		all   []link.NIC
		want  bool
	}{
		"every driver, no adapter":  {false, nil, false},
		"few drivers, no adapter":   {true, nil, true},
		"few drivers, another one":  {true, []link.NIC{{MAC: other}}, true},
		"few drivers, the one":      {true, []link.NIC{{MAC: other}, {MAC: mac}}, false},
		"every driver, another one": {false, []link.NIC{{MAC: other}}, false},
	} {
		cfg := api.BootConfig{MAC: mac, ShortDrivers: c.short}
		d := testMachine().drivers
		d.timeline.config, d.modules = cfg, kmod.NewLoader(&kmod.Index{}, kmod.CommandLine{})
		if got := shortOfDrivers(cfg, c.all); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		if err := d.noAdapter(c.all, errors.New("cause")); problem.IsFinal(err) != c.want ||
			c.want != (problem.HintOf(err) == shortHint) {
			t.Errorf("%s: final %t, hint %q", name, problem.IsFinal(err), problem.HintOf(err))
		}
	}
}
