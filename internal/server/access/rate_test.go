package access

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pando/internal/api"
)

// TestRates: a burst, later requests, separate limits per caller, and no limit if none is set.
func TestRates(t *testing.T) {
	t.Parallel()
	counted := map[string]int{}
	l := newRates(10, func(kind string) { counted[kind]++ })
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	may := func(name string) (n int) {
		for l.may(now, ratedToken, name) == nil {
			n++
		}
		return n
	}
	if n := may("ci"); n != 100 {
		t.Errorf("%d at once", n)
	}
	now = now.Add(1500 * time.Millisecond)
	if n := may("ci"); n != 15 {
		t.Errorf("%d after a second and a half", n)
	}
	if n := may("other"); n != 100 {
		t.Errorf("%d of another one", n)
	}
	var e *api.Error
	if err := l.may(now, ratedToken, "ci"); !errors.As(err, &e) || e.Code != api.TooMany ||
		e.RetryAfter != time.Second ||
		e.Hint == "" {
		t.Errorf("%+v", err)
	}
	if err := l.may(now.Add(e.RetryAfter), ratedToken, "ci"); err != nil {
		t.Errorf("after the wait that it was told: %v", err)
	}
	if counted[ratedToken] != 4 {
		t.Errorf("counted: %v", counted)
	}
	slow := newRates(1, func(string) {})
	for range rateBurst {
		_ = slow.may(now, ratedToken, "a")
	}
	if err := slow.may(now.Add(200*time.Millisecond), ratedToken, "a"); !errors.As(err, &e) ||
		e.RetryAfter != time.Second {
		t.Errorf("a part of a second is told as %v", e.RetryAfter)
	}
	if l = newRates(-1, nil); may0(l, now, 5000) != 5000 {
		t.Error("there is a bound where none is wanted")
	}
	if l = newRates(0, func(string) {}); may0(l, now, 5000) != DefaultRate*rateBurst {
		t.Error("the default is another one")
	}
}

func may0(l *rates, now time.Time, most int) (n int) {
	for n < most && l.may(now, ratedToken, "x") == nil {
		n++
	}
	return n
}

// TestRatesAreForgotten: ever more addresses do not take more memory, and a caller above its rate is not let through
// while idle callers can be dropped.
func TestRatesAreForgotten(t *testing.T) {
	t.Parallel()
	l := newRates(1, func(string) {})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i := range 3 * maxRated {
		_ = l.may(now, ratedAddress, fmt.Sprint(i))
		if len(l.known) > maxRated {
			t.Fatalf("%d are remembered", len(l.known))
		}
		now = now.Add(time.Millisecond) // the first of them are idle again after a second
		if i%10 == 0 {
			if err := l.may(now, ratedToken, "greedy"); i > 100*rateBurst && i%1000 != 0 && err == nil &&
				l.known["token greedy"].Wait(now) == 0 {
				t.Fatalf("after %d addresses the greedy one has requests left", i)
			}
		}
	}
	for i := range 3 * maxRated { // none is idle
		_ = l.may(now, ratedAddress, "other "+fmt.Sprint(i))
	}
	if len(l.known) > maxRated {
		t.Errorf("%d are remembered", len(l.known))
	}
}
