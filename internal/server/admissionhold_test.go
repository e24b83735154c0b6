package server

import (
	"strings"
	"testing"
	"time"

	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// fastLink gives a site two slots at 1 Gb/s, at which a load takes less than a second.
func fastLink(c *Config) { c.nodeLink, c.Uplink = gigabit, gigabit }

// held sends a machine's request for the script, and returns when the request is held open.
func (s *site) held(n *node) <-chan string {
	s.t.Helper()
	n.fast = true
	n.exchange(netboot.IPXE)
	answer := make(chan string, 1)
	go func() { answer <- n.script() }()
	for {
		if s.admission.Held(n.mac) {
			return answer
		}
		select {
		case script := <-answer:
			s.t.Fatalf("a machine whose turn is near has its answer at once:\n%s", script)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestAdmissionIsHeld: the request of a machine that will be admitted soon is held open, and answered with the script
// when a slot is free. Its timeline does not say that it waited.
func TestAdmissionIsHeld(t *testing.T) {
	s := startSite(t, fastLink)
	s.addImage()
	var initramfs string
	for i := range byte(2) {
		n := s.nodeAt(i+1, loopback(i+1))
		n.fast = true
		n.exchange(netboot.IPXE)
		_, initramfs = urls(t, n.script())
	}
	third, fourth := s.nodeAt(3, loopback(3)), s.nodeAt(4, loopback(4))
	answer := s.held(third)
	behind := s.held(fourth)
	s.nodeAt(2, loopback(2)).get(initramfs)
	script := <-answer
	urls(t, script)
	if script = <-behind; !strings.Contains(
		script,
		" waits for its turn to load: place 1, about 1 s\nset tries:int32 0 ||\n:ask\n",
	) {
		t.Errorf("whose turn has not come sees its place and asks again:\n%s", script)
	}
	events, err := s.registry.Events(t.Context(), registry.EventFilter{Boot: s.boots.At(third.addr).Boot.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Stage == trace.Script && e.Kind == trace.Info && strings.Contains(e.Message, "waits") {
			t.Errorf("timeline: %s", e.Message)
		}
	}
	if s.checkAdmission(s.boots.At(fourth.addr).Boot.ID) != 1 {
		t.Error("the timeline of the fourth does not say that it waits")
	}
	if got := s.admission.Status(); got.Loading != 2 || got.Waiting != 1 {
		t.Errorf("in the end: %+v", got)
	}
}
