package trace

import (
	"encoding/json"
	"testing"
	"time"
)

// TestChrome: viewers rely on these properties. Every event has its fields, names come before use, and no two spans of
// one line overlap.
func TestChrome(t *testing.T) {
	spans := []Span{
		{
			Track: "stages",
			Name:  "dhcp",
			Took:  2 * time.Second,
		}, {Track: "stages", Name: "booted", Start: 9 * time.Second},
		{
			Track:  "units",
			Name:   "ssh.service",
			Start:  5 * time.Second,
			Took:   2 * time.Second,
			Detail: map[string]string{"a": "b"},
		},
		{Track: "units", Name: "dbus.service", Start: 6 * time.Second, Took: 2 * time.Second},
		{Track: "units", Name: "late.service", Start: 7 * time.Second, Took: time.Second},
	}
	raw, err := EncodeChrome([]Process{{"pc001", spans}, {"pc002", spans[:1]}})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		TraceEvents []struct {
			Name, Ph, S string
			Ts          float64
			Dur         *float64
			Pid, Tid    int
			Args        map[string]string
		}
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	type line struct{ pid, tid int }
	names, end, kinds := map[line]string{}, map[line]float64{}, map[string]int{}
	for _, e := range got.TraceEvents {
		at := line{e.Pid, e.Tid}
		kinds[e.Ph]++
		switch {
		case e.Ph == "M":
			names[at] = e.Args["name"]
		case names[at] == "" || names[line{e.Pid, 0}] == "":
			t.Errorf("%+v is on a line without a name", e)
		case e.Ph == "X" && (e.Dur == nil || e.Ts < end[at]):
			t.Errorf("%+v overlaps, or has no length", e)
		case e.Ph == "i" && e.S != "t":
			t.Errorf("%+v has no scope", e)
		}
		if e.Dur != nil {
			end[at] = e.Ts + *e.Dur
		}
	}
	if kinds["X"] != 5 || kinds["i"] != 1 || kinds["M"] != 6 {
		t.Errorf("events: %v", kinds)
	}
	if names[line{1, 2}] != "units" || names[line{1, 3}] != "units 2" {
		t.Errorf("lines: %v", names)
	}
}
