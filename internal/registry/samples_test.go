package registry

import (
	"slices"
	"testing"
	"time"
)

// TestSamples: samples of an interval are returned; those of the same time are added up. Beyond the bound the older
// half has half the resolution and the same sums, for each server separately.
func TestSamples(t *testing.T) {
	r, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.maxSamples = 150
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	sum := func(all []Sample) (sent map[string]int64, longest time.Duration) {
		sent = map[string]int64{}
		for _, s := range all {
			sent[s.Server] += s.Sent
			longest = max(longest, s.Width)
			if s.At.UnixNano()%int64(s.Width) != 0 {
				t.Errorf("a sample of %v begins at %v", s.Width, s.At)
			}
		}
		return sent, longest
	}
	for i := range 100 {
		at := noon.Add(time.Duration(i) * time.Second)
		err := r.PutSamples(
			t.Context(),
			Sample{"a", at, time.Second, 2, 1, 0},
			Sample{"a", at, time.Second, 1, 0, 5},
			Sample{"b", at, time.Second, 7, 0, 0},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Samples(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour))
	sent, longest := sum(all)
	if err != nil || len(all) > 150 || sent["a"] != 300 || sent["b"] != 700 || longest < 2*time.Second {
		t.Errorf("%d samples, sent %v, up to %v wide, %v", len(all), sent, longest, err)
	}
	if last := all[len(all)-1]; last.Width != time.Second || !last.At.Equal(noon.Add(99*time.Second)) {
		t.Errorf("the newest is %+v", last)
	}
	some, err := r.Samples(t.Context(), noon.Add(95*time.Second), noon.Add(97*time.Second))
	if err != nil || len(some) != 6 || some[0] != (Sample{"a", noon.Add(95 * time.Second), time.Second, 3, 1, 5}) {
		t.Errorf("%+v, %v", some, err)
	}
	for i := range 400 { // of these no two can be joined
		if err := r.PutSamples(t.Context(),
			Sample{"a", noon.Add(time.Duration(i) * 24 * time.Hour), time.Second, 1, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	all, err = r.Samples(t.Context(), noon, noon.Add(400*24*time.Hour))
	if err != nil || len(all) > 150 || len(all) < 75 || all[len(all)-1].Sent != 1 {
		t.Errorf("%d samples, %v", len(all), err)
	}
}

// TestFeedings: the first report of a boot counts, and the oldest boots are deleted first.
func TestFeedings(t *testing.T) {
	r, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.maxFeedings = 2
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first := []Sender{{Node: "pc002", Bytes: 30}, {Other: "10.0.0.1:8480", Bytes: 4}}
	for _, f := range []Feeding{{"b1", "pc001", "r1", noon, first},
		{"b1", "pc001", "r1", noon, []Sender{{Bytes: 99}}}, {"b2", "pc002", "r1", noon.Add(time.Second), nil}} {
		if err := r.PutFeeding(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.Feedings(t.Context(), noon, noon, 10)
	if err != nil || len(got) != 1 || got[0].Place != "r1" || !slices.Equal(got[0].From, first) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := r.PutFeeding(t.Context(), Feeding{Boot: "b3", Started: noon.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	got, err = r.Feedings(t.Context(), noon, noon.Add(time.Hour), 10)
	if err != nil || len(got) != 2 || got[0].Boot != "b2" || got[1].Boot != "b3" {
		t.Errorf("%+v, %v", got, err)
	}
}
