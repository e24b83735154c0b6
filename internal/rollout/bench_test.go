package rollout

import (
	"fmt"
	"testing"
	"time"

	"pando/internal/fleet"
)

// BenchmarkStep steps a rollout of 10,000 nodes, half of which have passed.
func BenchmarkStep(b *testing.B) {
	var c []Candidate
	o := Observed{Nodes: map[string]Node{}, Open: true}
	for i := range 10_000 {
		name := fmt.Sprintf("pc%05d", i)
		c = append(c, Candidate{Name: name, Up: true, Usual: time.Minute})
		o.Nodes[name] = Node{
			Boot:    fleet.BootID(name),
			Version: digest(oldImage),
			Up:      true,
			Running: digest(oldImage),
			Speaks:  true,
			Told:    true,
		}
	}
	r, err := Begin(fleet.Rollout{From: oldImage, To: newImage, Plan: fleet.RolloutPlan{}.WithDefaults()}, c, start)
	if err != nil {
		b.Fatal(err)
	}
	r.Wave = r.Waves - 1
	for i := range r.Nodes[:5000] {
		r.Nodes[i].Phase = fleet.PhasePassed
	}
	for b.Loop() {
		Step(r, o, start.Add(time.Second))
	}
}
