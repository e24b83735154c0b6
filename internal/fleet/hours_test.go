package fleet

import (
	"strings"
	"testing"
	"time"
)

// at returns a time on the clock of Berlin, where summer time ends on 2026-10-25 at 3:00 and begins on 2027-03-28 at
// 2:00.
func at(t *testing.T, s string) time.Time {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	when, err := time.ParseInLocation("2006-01-02 15:04", s, zone)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

const labHours Hours = "Mon-Fri 07:45-22:00; Sat 22:00-02:30; 2026-12-24..2027-01-01 off; 2026-12-28 09:00-12:00; " +
	"Europe/Berlin"

func TestHours(t *testing.T) {
	table, err := labHours.Parse()
	if err != nil || table.Zone != "Europe/Berlin" {
		t.Fatalf("%+v, %v", table, err)
	}
	for when, want := range map[string]bool{
		// a Monday
		"2026-11-23 07:44": false, "2026-11-23 07:45": true, "2026-11-23 21:59": true, "2026-11-23 22:00": false,
		// into Sunday
		"2026-11-28 21:59": false, "2026-11-28 23:00": true, "2026-11-29 02:29": true, "2026-11-29 02:30": false,
		"2026-12-24 12:00": false, "2026-12-28 10:00": false, "2027-01-01 10:00": false, "2027-01-04 10:00": true,
	} {
		if got := table.On(at(t, when)); got != want {
			t.Errorf("%s: %v", when, got)
		}
	}
	// The first exception that covers a day applies, so an exception for the 28th stands before the holidays.
	first, err := Hours("2026-12-28 09:00-12:00; " + labHours).Parse()
	if err != nil || !first.On(at(t, "2026-12-28 10:00")) || first.On(at(t, "2026-12-28 12:00")) ||
		first.On(at(t, "2026-12-29 10:00")) {
		t.Errorf("a day within holidays: %v", err)
	}
}

func TestHoursEdges(t *testing.T) {
	table, err := labHours.Parse()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ after, until, want string }{
		{"2026-11-23 07:00", "2026-11-23 07:44", ""},
		{"2026-11-23 07:00", "2026-11-23 07:45", "2026-11-23 07:45 on"},
		{"2026-11-23 07:45", "2026-11-23 08:00", ""},
		{"2026-11-23 07:00", "2026-11-23 23:00", "2026-11-23 22:00 off"},
		{"2026-11-20 00:00", "2026-11-22 12:00", "2026-11-22 02:30 off"}, // a weekend: what came last
		{"2026-12-24 00:00", "2027-01-04 07:00", "2027-01-03 02:30 off"},
		{"2026-12-23 12:00", "2026-12-31 12:00", "2026-12-23 22:00 off"}, // a server that was away for holidays
	} {
		when, on, found := table.Edge(at(t, c.after), at(t, c.until))
		got := ""
		if found {
			got = when.Format("2006-01-02 15:04") + map[bool]string{true: " on", false: " off"}[on]
		}
		if got != c.want {
			t.Errorf("after %s until %s: %q, want %q", c.after, c.until, got, c.want)
		}
	}
	always, err := Hours("00:00-24:00").Parse()
	if err != nil {
		t.Fatal(err)
	}
	if when, _, found := always.Edge(at(t, "2026-11-20 12:00"), at(t, "2026-11-23 12:00")); found {
		t.Errorf("what is always on is switched at %s", when)
	}
}

// TestHoursOnDaysOfChangedClocks: each switching time comes once, also in an hour that the clock repeats or skips.
func TestHoursOnDaysOfChangedClocks(t *testing.T) {
	for day, hours := range map[string]Hours{"2026-10-25": "02:15-02:45", "2027-03-28": "02:15-03:30"} {
		table, err := hours.Parse()
		if err != nil {
			t.Fatal(err)
		}
		var ons, offs int
		last := at(t, day+" 00:00")
		for now := last; now.Before(at(t, day+" 12:00")); now = now.Add(time.Minute) {
			if _, on, found := table.Edge(last, now); found && on {
				ons++
			} else if found {
				offs++
			}
			last = now
		}
		if ons != 1 || offs != 1 {
			t.Errorf("%s: on %d times, off %d times", day, ons, offs)
		}
	}
}

func TestHoursRefused(t *testing.T) {
	for text, want := range map[Hours]string{
		"":                                 "empty",
		"Europe/Berlin":                    "no hours",
		"Mon-Fri 07:45-22:00;":             "empty",
		"Mon-Fri 7:45":                     "from one time to another",
		"Europe/Berlin; 08:00-09:00":       "after the time zone",
		"2026-12-24 maybe":                 "window",
		"2026-12-24..2026-12-01 off":       "run of days",
		"2026-13-24 off":                   "run of days",
		"2026-12-24 Mon 08:00-09:00":       "want hours",
		"Mon 08:00-09:00; Tue 25:00-26:00": "from one time to another",
	} {
		if _, err := text.Parse(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestWanted(t *testing.T) {
	table, err := labHours.Parse()
	if err != nil {
		t.Fatal(err)
	}
	wish := func(on bool, when string) *PowerWish { return &PowerWish{On: on, At: at(t, when)} }
	for _, c := range []struct {
		table     *Timetable
		wish      *PowerWish
		now       string
		on, known bool
	}{
		{nil, nil, "2026-11-23 12:00", false, false},
		{nil, wish(true, "2026-11-01 12:00"), "2026-11-23 12:00", true, true},
		{&table, nil, "2026-11-23 12:00", true, true},
		{&table, wish(true, "2026-11-23 23:00"), "2026-11-23 23:30", true, true},   // an order late in the evening
		{&table, wish(true, "2026-11-23 23:00"), "2026-11-24 23:30", false, true},  // the next day it has ended
		{&table, wish(false, "2026-11-23 12:00"), "2026-11-23 13:00", false, true}, // it was switched off at noon
	} {
		if on, known := Wanted(c.table, c.wish, at(t, c.now)); on != c.on || known != c.known {
			t.Errorf("%s with %+v: %v, %v", c.now, c.wish, on, known)
		}
	}
}

func FuzzHours(f *testing.F) {
	f.Add(string(labHours), int64(1795000000))
	f.Add("2026-12-24 off", int64(0))
	f.Fuzz(func(t *testing.T, s string, now int64) {
		table, err := Hours(s).Parse()
		if err != nil {
			return
		}
		until := time.Unix(now%4e9, 0).UTC()
		after := until.Add(-72 * time.Hour)
		when, on, found := table.Edge(after, until)
		if found && (when.After(until) || !when.After(after) || table.On(when) != on || table.On(until) != on) {
			t.Errorf("%q at %s: edge at %s to %v", s, until, when, on)
		}
		if !found && table.On(after) != table.On(until) {
			t.Errorf("%q: on changed between %s and %s without an edge", s, after, until)
		}
	})
}
