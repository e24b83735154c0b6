package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/rollout"
	"pando/internal/trace"
)

// pastBoots adds boots of a version to the history, each a little longer than the one before.
func (s *site) pastBoots(v fleet.Digest, class string, n int, root time.Duration) {
	s.t.Helper()
	var boots []registry.PastBoot
	for i := range n {
		at := root + time.Duration(i)*50*time.Millisecond
		boots = append(
			boots,
			registry.PastBoot{
				ID:      fleet.BootID(fmt.Sprintf("%.4s%s%d", strings.TrimPrefix(string(v), "sha256:"), class, i)),
				Node:    "pc001",
				Group:   "default",
				Class:   class,
				Version: v,
				Image:   "lab",
				Started: s.now(),
				State:   trace.Up,
				Ends: trace.Ends{
					trace.Kernel: 5 * time.Second,
					trace.Root:   5*time.Second + at,
					trace.Booted: 20*time.Second + at,
				},
			},
		)
	}
	if err := s.registry.PutHistory(s.t.Context(), 0, boots...); err != nil {
		s.t.Fatal(err)
	}
}

// TestASlowerVersionIsMarked: a slower version is marked, with its slower stage; but not if it was booted on slower
// hardware, or only a few times.
func TestASlowerVersionIsMarked(t *testing.T) {
	s := startSite(t)
	_, before := s.addImage(func(m *image.Manifest) { m.CommandLine = []string{"before"} })
	s.clock.add(time.Hour)
	_, after := s.addImage()
	client := api.OverHandler(s.socketRoutes())
	mark := func() string {
		t.Helper()
		i, err := client.Image(t.Context(), "lab")
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range i.Versions {
			if v.Digest == after {
				return v.Slower
			}
		}
		t.Fatalf("no version %s", after)
		return ""
	}
	s.pastBoots(before, "fast", 20, 2*time.Second)
	s.pastBoots(after, "old-machines", 20, 20*time.Second)
	s.pastBoots(after, "fast", 3, 6*time.Second)
	if got := mark(); got != "" {
		t.Errorf("by three boots, and others on other hardware: %q", got)
	}
	s.pastBoots(after, "fast", 20, 6*time.Second)
	if got := mark(); !strings.Contains(got, "boots take 4s longer than with "+before.Short()) ||
		!strings.Contains(got, "most of it in root") {
		t.Errorf("slower: %q", got)
	}
	s.speedGate(before, after)
}

// speedGate: a rollout with the speed gate stops at a slower version, and one without does not.
func (s *site) speedGate(before, after fleet.Digest) {
	s.t.Helper()
	for gate, want := range map[fleet.Gate]bool{fleet.GateSpeed: true, fleet.GateBooted: false} {
		var o rollout.Observed
		err := s.registry.View(s.t.Context(), func(tx *registry.Tx) (err error) {
			o, err = s.rollouts.Observe(
				s.t.Context(),
				tx,
				fleet.Rollout{ID: "default-1", Group: "default", From: fleet.Ref("lab@" + string(before)),
					To: fleet.Ref("lab@" + string(after)), Plan: fleet.RolloutPlan{Gates: []fleet.Gate{gate}}},
			)
			return err
		})
		if err != nil || (o.Slower != "") != want {
			s.t.Errorf("gate %s: slower %q, %v", gate, o.Slower, err)
		}
	}
}
