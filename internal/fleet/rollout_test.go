package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestPortion(t *testing.T) {
	for in, want := range map[string]string{"3": "3 3", "10%": "3 2", "100%": "25 25", "1%": "1 1",
		"99999": "99999 99999"} {
		p, err := ParsePortion(in)
		if got := fmt.Sprint(p.AtLeast(25), p.AtMost(25)); err != nil || got != want {
			t.Errorf("%s of 25: %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "0%", "101%", "-1", "1.5", "100000", "%", "1 %", "x"} {
		if _, err := ParsePortion(in); err == nil {
			t.Errorf("%q is taken for a portion", in)
		}
	}
}

func TestGates(t *testing.T) {
	g, err := ParseGates(`booted:2.5, units,script:'look-here'`)
	if want := "[booted:2.5 units script:look-here]"; err != nil || fmt.Sprint(g) != want {
		t.Errorf("%v, %v, want %s", g, err, want)
	}
	if g[0].Times() != 2.5 || GateBooted.Times() != 3 || g[2].Arg() != "look-here" || g[2].Kind() != GateScript {
		t.Errorf("%v %v %v", g[0].Times(), g[2].Arg(), g[2].Kind())
	}
	for _, in := range []string{"", "booted,", "boot", "booted:0", "booted:x", "booted:NaN", "script",
		"script:/bin/sh", "script:../x", "units:x", "units,units"} {
		if g, err := ParseGates(in); err == nil {
			t.Errorf("%q is taken for gates: %v", in, g)
		}
	}
}

func TestWindows(t *testing.T) {
	at := func(s string) time.Time { // 2026-11-16 is a Monday
		u, err := time.Parse("2006-01-02 15:04", "2026-11-"+s)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for window, times := range map[string][2]string{ // open; shut
		"Mon-Fri 20:00-06:00": {"16 20:00,16 23:59,17 05:59,20 22:00,21 05:00", "16 05:00,16 19:59,17 06:00,21 " +
			"20:00,22 03:00"},
		"sat,sun 00:00-24:00":   {"21 00:00,22 23:59", "20 23:59,23 00:00"},
		"22:00-05:00":           {"16 22:00,22 04:59", "16 21:59,16 05:00"},
		"Fri-Mon 12:00-13:30":   {"20 12:00,22 13:29,16 12:00", "19 12:00,17 12:00,20 13:30"},
		"  Wed   1:00-24:00   ": {"18 01:00,18 23:59", "18 00:59,19 00:00"},
	} {
		w, err := ParseWindow(window)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, list := range times {
			for s := range strings.SplitSeq(list, ",") {
				if w.Open(at(s)) != (i == 0) {
					t.Errorf("%s at %s: open is %v", window, at(s), i != 0)
				}
			}
		}
	}
	for _, in := range []string{"", "Mon", "Mon-Fri", "20:00", "20:00-20:00", "24:00-06:00", "20:60-21:00",
		"25:00-26:00", "Xyz 20:00-21:00", "Mon- 20:00-21:00", "a b c", "+1:00-02:00"} {
		if _, err := ParseWindow(in); err == nil {
			t.Errorf("%q is taken for a window", in)
		}
	}
}

func TestRolloutPlan(t *testing.T) {
	if err := (RolloutPlan{}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	for _, spoil := range []func(*RolloutPlan){
		func(p *RolloutPlan) { p.Canary = "x" },
		func(p *RolloutPlan) { p.Canary = "" },
		func(p *RolloutPlan) { p.CanaryNodes = []string{"no name"} },
		func(p *RolloutPlan) { p.Wave = "0" },
		func(p *RolloutPlan) { p.MaxUnavailable = "" },
		func(p *RolloutPlan) { p.Gates = nil },
		func(p *RolloutPlan) { p.Gates = []Gate{"x"} },
		func(p *RolloutPlan) { p.OnFail = "x" },
		func(p *RolloutPlan) { p.Windows = []Window{"x"} },
		func(p *RolloutPlan) { p.Drain = "../x" },
		func(p *RolloutPlan) { p.Undrain = "x" },
		func(p *RolloutPlan) { p.Soak = -1 },
	} {
		p := RolloutPlan{}.WithDefaults()
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("taken: %+v", p)
		}
	}
}

// FuzzRolloutText: a text for a portion, gates or a window is refused, or its value is within bounds.
func FuzzRolloutText(f *testing.F) {
	for _, s := range []string{"10%", "3", "booted:2.5,units,script:x", "Mon-Fri 20:00-06:00", "sat,sun 00:00-24:00",
		"sun-sun 0:00-0:01", "%", ":", "-", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := ParsePortion(s); err == nil &&
			(p.AtLeast(1000) < 1 || p.AtMost(1) < 1 || p.AtMost(1000) > p.AtLeast(1000)) {
			t.Errorf("portion %q", s)
		}
		if gates, err := ParseGates(s); err == nil {
			for _, g := range gates {
				if g.Validate() != nil || g.Times() < 1 || g.Times() > 100 && g.Kind() == GateBooted ||
					strings.ContainsAny(g.Arg(), "/ \n") {
					t.Errorf("gate %q", g)
				}
			}
		}
		if w, err := ParseWindow(s); err == nil {
			open := 0
			for minute := range 7 * 24 * 60 {
				if w.Open(time.Unix(int64(minute)*60, 0).UTC()) {
					open++
				}
			}
			if open == 0 {
				t.Errorf("window %q is never open", s)
			}
		}
	})
}

// TestRolloutStateText: people see words that describe the state; the names on the wire stay.
func TestRolloutStateText(t *testing.T) {
	for s, want := range map[RolloutState]string{
		RolloutRunning: "running", RolloutRollingBack: "rolling back", RolloutRolledBack: "rolled back",
	} {
		if got := s.Text(); got != want {
			t.Errorf("%s is %q, want %q", s, got, want)
		}
	}
}
