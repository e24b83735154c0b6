package server

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"pando/internal/admission"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// fastLink gives a site two slots at 1 Gb/s, where a turn takes less than a second.
func fastLink(c *Config) { c.NodeLink, c.Uplink = gigabit, gigabit }

// held starts a machine's question, and returns when it is kept on the line.
func (s *site) held(n *node) <-chan string {
	s.t.Helper()
	n.fast = true
	n.exchange(netboot.IPXE)
	answer := make(chan string, 1)
	go func() { answer <- n.script() }()
	for {
		s.admission.Mu.Lock()
		_, ok := s.admission.Waiting[n.mac]
		s.admission.Mu.Unlock()
		if ok {
			return answer
		}
		select {
		case script := <-answer:
			s.t.Fatalf("a machine whose turn is near has its answer at once:\n%s", script)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestAdmissionIsHeld: a machine whose turn is near is kept on the line, and told to load at the moment at which a slot
// is free. It has waited for nothing that its timeline need tell.
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

// TestAdmissionWithSlowFirmware: machines that take less than half of their links leave room for more, also for those
// on the line.
func TestAdmissionWithSlowFirmware(t *testing.T) {
	s := startSite(t, fastLink)
	var loads []admission.Transfer
	for i := range byte(2) {
		s.admission.Request(s.node(i).mac)
		loads = append(loads, s.admission.Begin(s.node(i).mac))
	}
	for i := range byte(3) {
		s.admission.Request(s.node(i + 2).mac)
		_, leave := s.admission.Hold(s.node(i + 2).mac)
		t.Cleanup(leave)
	}
	const tenth = 1_500_000 // of a second, with firmware that takes 120 Mb/s
	for round := range 2 {
		for left := int64(15); left >= 0; left-- {
			s.clock.add(100 * time.Millisecond)
			loads[1].Sent(tenth, math.MaxInt64)
			loads[0].Sent(tenth, left*tenth)
		}
		if got := s.admission.Status().Slots; (got > 2) != (round == 1) {
			t.Errorf("after %d loads: %d slots", round+1, got)
		}
		loads[0] = s.admission.Begin(s.node(2).mac)
	}
	if got := s.admission.Status(); got.Waiting != 0 || got.Loading != 4 || len(s.admission.Waiting) != 0 {
		t.Errorf("in the end: %+v", got)
	}
}

// TestAdmissionHangsUp: a machine that is gone while it is kept on the line is not called.
func TestAdmissionHangsUp(t *testing.T) {
	s := startSite(t, fastLink)
	for i := range byte(2) {
		s.admission.Request(s.node(i).mac)
	}
	for i := range byte(2) {
		s.admission.Request(s.node(i + 2).mac)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.admission.Wait(ctx, s.node(2).mac, time.Minute)
	called, leave := s.admission.Hold(s.node(3).mac)
	defer leave()
	s.admission.Begin(s.node(0).mac).End()
	<-called
	if answer := s.admission.Request(s.node(3).mac); answer.Place != 0 {
		t.Errorf("who was called: %+v", answer)
	}
	if answer := s.admission.Request(s.node(2).mac); answer.Place != 1 {
		t.Errorf("who hung up and asks again: %+v", answer)
	}
	if len(s.admission.Waiting) != 0 {
		t.Errorf("on the line: %v", s.admission.Waiting)
	}
}
