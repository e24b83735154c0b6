package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hours is a timetable for nodes as text, in parts separated by ';'. "Mon-Fri 07:45-22:00; Sat 09:00-13:00" applies to
// every week (see Window). "2026-12-24..2027-01-01 off" and "2026-12-19 09:00-18:00" are exceptions. A time zone may
// come last ("Europe/Berlin"); the default is the server's. "" is no timetable.
type Hours string

// Timetable is a parsed Hours.
type Timetable struct {
	Zone string // "": the server's
	week []span
	days []exception
}

// exception is a range of days with other hours than the week's.
type exception struct {
	from, to time.Time // midnights, UTC
	hours    []span    // none: the nodes are off
}

// Parse parses the hours. It does not check that the time zone exists.
func (h Hours) Parse() (Timetable, error) {
	var t Timetable
	for part := range strings.SplitSeq(string(h), ";") {
		part = strings.TrimSpace(part)
		if part == "" || len(h) > 4096 {
			return t, fmt.Errorf("hours %.80q: a part is empty, or there are too many", string(h))
		}
		if err := t.add(part); err != nil {
			return t, fmt.Errorf("hours %.80q: %w", string(h), err)
		}
	}
	if len(t.week) == 0 && len(t.days) == 0 {
		return t, fmt.Errorf(
			"hours %q: no hours; write them like 'Mon-Fri 07:45-22:00; 2026-12-24 off; Europe/Berlin'",
			string(h),
		)
	}
	return t, nil
}

func (t *Timetable) add(part string) error {
	if t.Zone != "" {
		return fmt.Errorf("%q stands after the time zone", part)
	}
	first, rest, _ := strings.Cut(part, " ")
	if first[0] >= '0' && first[0] <= '9' && strings.Count(first, "-") >= 2 {
		return t.addDays(first, strings.TrimSpace(rest))
	}
	if rest == "" && (strings.Contains(first, "/") || first == "UTC") {
		t.Zone = first
		return nil
	}
	s, err := Window(part).parse()
	t.week = append(t.week, s)
	return err
}

func (t *Timetable) addDays(days, hours string) error {
	from, to, ranged := strings.Cut(days, "..")
	if !ranged {
		to = from
	}
	var e exception
	var err1, err2 error
	e.from, err1 = time.Parse(time.DateOnly, from)
	e.to, err2 = time.Parse(time.DateOnly, to)
	if err1 != nil || err2 != nil || e.to.Before(e.from) {
		return fmt.Errorf("%q is no day or run of days like 2026-12-24..2027-01-01", days)
	}
	if hours != "off" {
		if strings.Contains(hours, " ") {
			return fmt.Errorf("%q after a date: want hours such as 09:00-18:00, or off", hours)
		}
		s, err := Window(hours).parse()
		if err != nil {
			return err
		}
		e.hours = []span{s}
	}
	t.days = append(t.days, e)
	return nil
}

// stretch is a period during which nodes are on. It is two instants, so that an hour that a clock skips or repeats
// switches no node twice.
type stretch struct{ from, to time.Time }

// stretches returns the periods that begin on the given day. Their times are in the day's time zone.
func (t Timetable) stretches(day time.Time) []stretch {
	year, month, date := day.Date()
	same := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	hours := t.week
	special := slices.IndexFunc(t.days, func(e exception) bool { return !same.Before(e.from) && !same.After(e.to) })
	if special >= 0 {
		hours = t.days[special].hours
	}
	var out []stretch
	for _, h := range hours {
		if !h.days[day.Weekday()] {
			continue
		}
		to := h.to
		if to <= h.from {
			to += dayMinutes
		}
		at := func(minute int) time.Time { return time.Date(year, month, date, 0, minute, 0, 0, day.Location()) }
		out = append(out, stretch{at(h.from), at(to)})
	}
	return out
}

// On reports whether nodes are on at a time. The time must be in the timetable's time zone.
func (t Timetable) On(at time.Time) bool {
	for _, back := range []int{0, 1} {
		for _, s := range t.stretches(at.AddDate(0, 0, -back)) {
			if !at.Before(s.from) && at.Before(s.to) {
				return true
			}
		}
	}
	return false
}

// edgeDays is how many days back Edge looks. An older switching time is not found.
const edgeDays = 40

// Edge returns the last time in an interval at which the timetable switches nodes, and whether on or off. Both ends
// must be in the timetable's time zone.
func (t Timetable) Edge(after, until time.Time) (at time.Time, on, found bool) {
	for back := range edgeDays {
		day := until.AddDate(0, 0, 1-back)
		if last := day.AddDate(0, 0, 2); last.Before(after) || last.Before(at) {
			break // a period that begins on one day ends on the next at the latest
		}
		for _, s := range t.stretches(day) {
			for _, e := range []time.Time{s.from, s.to} {
				if e.After(after) && !e.After(until) && e.After(at) && t.On(e) != t.On(e.Add(-time.Nanosecond)) {
					at, on, found = e, t.On(e), true
				}
			}
		}
	}
	return at, on, found
}
