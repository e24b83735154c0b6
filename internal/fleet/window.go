package fleet

import (
	"fmt"
	"strings"
	"time"
)

// Window is a weekly time: "Mon-Fri 20:00-06:00", "Sat,Sun 00:00-24:00", or "22:00-05:00" for every day. A window whose
// end is before its begin ends on the next day; it belongs to the day on which it begins.
type Window string

// span is a parsed window.
type span struct {
	days     [7]bool // from Sunday
	from, to int     // minutes of the day
}

const dayMinutes = 24 * 60

var weekdays = [...]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// ParseWindow checks the form of a window.
func ParseWindow(s string) (Window, error) {
	_, err := Window(s).parse()
	return Window(s), err
}

// Open reports whether t is in the window. t must be in the window's time zone.
func (w Window) Open(t time.Time) bool {
	s, err := w.parse()
	if err != nil {
		return false // ParseWindow accepts no such window
	}
	today, minute := int(t.Weekday()), t.Hour()*60+t.Minute()
	if s.from < s.to {
		return s.days[today] && s.from <= minute && minute < s.to
	}
	return s.days[today] && s.from <= minute || s.days[(today+6)%7] && minute < s.to
}

func (w Window) parse() (span, error) {
	bad := func(why string) (span, error) {
		return span{}, fmt.Errorf("window %q: %s; write it like 'Mon-Fri 20:00-06:00' or '22:00-05:00'", string(w), why)
	}
	words := strings.Fields(string(w))
	var s span
	switch len(words) {
	case 1:
		s.days = [7]bool{true, true, true, true, true, true, true}
	case 2:
		for part := range strings.SplitSeq(words[0], ",") {
			if !s.addDays(part) {
				return bad(fmt.Sprintf("%q is no day", part))
			}
		}
	default:
		return bad("it is not days and hours")
	}
	from, to, ok := strings.Cut(words[len(words)-1], "-")
	if s.from, s.to = minuteOf(from), minuteOf(to); !ok || s.from < 0 || s.to < 0 || s.from == dayMinutes ||
		s.from == s.to {
		return bad("the hours are not from one time to another")
	}
	return s, nil
}

// addDays adds "mon" or "mon-fri"; a range may wrap around the week's end.
func (s *span) addDays(text string) bool {
	from, to, ranged := strings.Cut(text, "-")
	if !ranged {
		to = from
	}
	first, last := dayOf(from), dayOf(to)
	if first < 0 || last < 0 {
		return false
	}
	for d := first; ; d = (d + 1) % 7 {
		s.days[d] = true
		if d == last {
			return true
		}
	}
}

func dayOf(text string) int {
	for i, d := range weekdays {
		if strings.EqualFold(text, d) {
			return i
		}
	}
	return -1
}

// minuteOf parses a time from "0:00" to "24:00" and returns its minute of the day, or -1 if it is invalid.
func minuteOf(text string) int {
	h, m, ok := strings.Cut(text, ":")
	hours, err1 := number(h)
	minutes, err2 := number(m)
	if !ok || err1 != nil || err2 != nil || len(h) > 2 || len(m) != 2 || minutes > 59 || hours*60+minutes > dayMinutes {
		return -1
	}
	return hours*60 + minutes
}
