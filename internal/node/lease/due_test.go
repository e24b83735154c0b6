package lease

import (
	"testing"
	"time"

	"pando/internal/link"
)

func TestLeaseDue(t *testing.T) {
	l := link.Lease{Acquired: time.Hour, Length: 8 * time.Hour, Renew: 4 * time.Hour, Rebind: 7 * time.Hour}
	for _, c := range []struct {
		age  time.Duration
		what renewal
		wait time.Duration
	}{
		{0, keep, 4 * time.Hour},
		{4*time.Hour - 1, keep, 1},
		{4 * time.Hour, ask, 90 * time.Minute},
		{7*time.Hour - time.Second, ask, time.Minute},
		{7 * time.Hour, askAll, 30 * time.Minute},
		{8*time.Hour - 1, askAll, time.Minute},
		{8 * time.Hour, discover, time.Minute},
		{1000 * time.Hour, discover, time.Minute},
	} {
		what, wait := due(l, l.Acquired+c.age)
		if what != c.what || wait != c.wait {
			t.Errorf("at age %v: %v, %v; want %v, %v", c.age, what, wait, c.what, c.wait)
		}
	}
}
