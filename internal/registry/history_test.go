package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// TestHistory: boots are returned newest first; a boot that ends replaces its own line; filters select; the mark only
// grows.
func TestHistory(t *testing.T) {
	r, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	b := PastBoot{
		ID:       "b1",
		Node:     "pc001",
		Group:    "lab",
		Class:    "Acme 3000",
		Firmware: "bios",
		Image:    "lab:v1",
		Version:  "sha256:aa",
		Started:  at,
		State:    trace.Booting,
		Stage:    trace.Script,
	}
	c := b
	c.ID, c.Group, c.Version, c.Started = "b2", "hall", "sha256:bb", at.Add(time.Minute)
	if err := r.PutHistory(t.Context(), 10, b, c); err != nil {
		t.Fatal(err)
	}
	b.State, b.Stage, b.Elapsed, b.Bytes = trace.Up, trace.Booted, 40*time.Second, map[string]int64{"server": 5}
	b.Ends = trace.Ends{trace.DHCP: time.Second, trace.Booted: 40 * time.Second}
	if err := r.PutHistory(t.Context(), 5, b); err != nil {
		t.Fatal(err)
	}
	if mark, err := r.HistoryMark(t.Context()); mark != 10 || err != nil {
		t.Errorf("mark %d, %v", mark, err)
	}
	for _, k := range []struct {
		f    HistoryFilter
		want []fleet.BootID
	}{
		{HistoryFilter{}, []fleet.BootID{"b2", "b1"}}, {HistoryFilter{Limit: 1}, []fleet.BootID{"b2"}},
		{HistoryFilter{Version: "sha256:aa"}, []fleet.BootID{"b1"}},
		{HistoryFilter{Group: "hall"}, []fleet.BootID{"b2"}},
		{HistoryFilter{Class: "nothing"}, nil}, {HistoryFilter{Since: at.Add(time.Second)}, []fleet.BootID{"b2"}},
		{HistoryFilter{Until: at}, []fleet.BootID{"b1"}},
	} {
		got, err := r.History(t.Context(), k.f)
		var ids []fleet.BootID
		for _, b := range got {
			ids = append(ids, b.ID)
		}
		if err != nil || !slices.Equal(ids, k.want) {
			t.Errorf("%+v: %v, %v; want %v", k.f, ids, err, k.want)
		}
	}
	got, err := r.History(t.Context(), HistoryFilter{Version: "sha256:aa"})
	if err != nil || fmt.Sprint(got[0]) != fmt.Sprint(b) {
		t.Errorf("%v, want %v (%v)", got, b, err)
	}
}

// TestHistoryIsThinned: above its bound the history loses every second boot of its older half, and none of the newer
// half.
func TestHistoryIsThinned(t *testing.T) {
	r, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.maxHistory = 100
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i := range 101 {
		b := PastBoot{ID: fleet.BootID(fmt.Sprint(i)), Started: at.Add(time.Duration(i) * time.Minute), State: trace.Up}
		if err := r.PutHistory(t.Context(), int64(i), b); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.History(t.Context(), HistoryFilter{})
	if err != nil || len(got) != 76 {
		t.Fatalf("%d boots, %v", len(got), err)
	}
	for i, b := range got[:51] {
		if want := fmt.Sprint(100 - i); string(b.ID) != want {
			t.Errorf("boot %s is where %s should be", b.ID, want)
		}
	}
	if got[51].ID != "48" || got[75].ID != "0" {
		t.Errorf("the older half is %s to %s", got[51].ID, got[75].ID)
	}
}
