package history

import (
	"testing"
	"time"

	"pando/internal/registry"
)

// TestSampler: samples start with the first second in which much is sent, go on for a while after, and cost nothing
// otherwise.
func TestSampler(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 300, time.UTC)
	s := &Sampler{name: "a", least: sampleLeast}
	var m moved
	var got []registry.Sample
	for i := range 60 {
		switch {
		case i == 10 || i == 12:
			m.sent += 1e6
			m.read += 4096
		default:
			m.sent += 1000 // heartbeats
		}
		got = append(got, s.step(at.Add(time.Duration(i)*time.Second), m)...)
	}
	if len(got) != 17 || s.batch != nil {
		t.Fatalf("%d samples, and %d wait", len(got), len(s.batch))
	}
	first := registry.Sample{
		Server: "a",
		At:     at.Add(10 * time.Second).Truncate(time.Second),
		Width:  time.Second,
		Sent:   1e6,
		Read:   4096,
	}
	if got[0] != first || got[1].Sent != 1000 || got[2].Sent != 1e6 {
		t.Errorf("samples %+v", got[:3])
	}
}
