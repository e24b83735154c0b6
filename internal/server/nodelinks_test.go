package server

import (
	"testing"

	"pando/internal/fleet"
)

// The link rate that nodes report when they register decides how many load at the same time, also after a restart.
func TestLinksOfNodes(t *testing.T) {
	s := startSite(t, func(c *Config) { c.Uplink = gigabit })
	s.addImage()
	if got := s.admission.Status(); got.Slots != 2 || got.NodeLink != gigabit {
		t.Errorf("nobody has told: %+v", got)
	}
	n := s.node(1)
	n.registerWith(n.load(), fleet.Hardware{Link: 100e6})
	for _, when := range []string{"a node has told", "the server has started again"} {
		if got := s.admission.Status(); got.Slots != 20 || got.NodeLink != 12.5e6 {
			t.Errorf("%s: %+v", when, got)
		}
		s.restart()
	}
}
