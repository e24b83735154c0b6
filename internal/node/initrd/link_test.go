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
		if err := d.noAdapter(c.all, errors.New("cause")); problem.IsFinal(err) != c.want ||
			c.want != (problem.HintOf(err) == shortHint) {
			t.Errorf("%s: final %t, hint %q", name, problem.IsFinal(err), problem.HintOf(err))
		}
	}
}

// TestMissingDriverIsBlamed: with the adapter that booted missing, another one without a cable does not hide why.
func TestMissingDriverIsBlamed(t *testing.T) {
	mac, other := fleet.MAC{2, 0, 0, 0, 0, 1}, fleet.MAC{2, 0, 0, 0, 0, 2}
	cause := errors.New("build the image again with --driver cxgb4")
	for name, c := range map[string]struct {
		all  []link.NIC
		want bool
	}{
		"another one": {[]link.NIC{{MAC: other}}, true},
		"none":        {nil, true},
		"the one":     {[]link.NIC{{MAC: mac}}, false},
	} {
		p := &problem.Problem{Err: errors.New("no network link")}
		blameDriver(p, api.BootConfig{MAC: mac}, c.all, cause)
		if got := p.Hint == cause.Error(); got != c.want {
			t.Errorf("%s: hint %q", name, p.Hint)
		}
		if got := errors.Is(p, cause); got != c.want {
			t.Errorf("%s: %v", name, p)
		}
	}
}
