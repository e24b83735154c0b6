package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pando/internal/backoff"
	"pando/internal/link"
)

// renewal says what is due for a lease at some moment (RFC 2131, 4.4.5).
type renewal int

const (
	keep     renewal = iota // nothing is due
	ask                     // T1 passed: request it from the server that gave it
	askAll                  // T2 passed: request it from any server
	discover                // expired: get a new lease; the old address stays, because the root depends on it
)

// Pauses between attempts, whatever the DHCP server says.
const (
	minRenew = time.Minute      // after an attempt that failed
	minPause = 30 * time.Second // between any two attempts
	useAgain = 5 * time.Second  // until a lease that could not be applied is tried again
)

var errNak = errors.New("the server takes the address back")

// due returns what to do at now, and how long to wait if it fails or is keep.
func due(l link.Lease, now time.Duration) (renewal, time.Duration) {
	age := now - l.Acquired
	switch {
	case age < l.Renew:
		return keep, l.Renew - age
	case age < l.Rebind:
		return ask, max((l.Rebind-age)/2, minRenew)
	case age < l.Length:
		return askAll, max((l.Length-age)/2, minRenew)
	}
	return discover, minRenew
}

// renewLoop renews a lease.
type renewLoop struct {
	now   func() time.Duration // CLOCK_MONOTONIC
	renew func(context.Context, link.Lease, renewal) (link.Lease, error)
	use   func(ctx context.Context, old, l link.Lease) error // applies l, which replaces a lease
	say   func(message, hint string)
}

// run renews l until ctx ends.
func (k *renewLoop) run(ctx context.Context, l link.Lease) {
	for used := l; ; {
		what, pause := due(l, k.now())
		if what != keep {
			renewed, err := k.again(ctx, l, what)
			if err == nil {
				l = renewed
				_, pause = due(l, k.now())
			} else {
				k.say(fmt.Sprintf("lease of %s not renewed: %v", l.Address, err), "is the DHCP server running?")
			}
		}
		pause = max(pause, minPause)
		for used.Acquired != l.Acquired && pause > useAgain {
			if k.use(ctx, used, l) == nil {
				used = l
				break
			}
			if backoff.Sleep(ctx, useAgain) != nil {
				return
			}
			pause -= useAgain
		}
		if backoff.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// again renews l in the way that is due. If the server takes the address back, it gets a new lease at once.
func (k *renewLoop) again(ctx context.Context, l link.Lease, what renewal) (link.Lease, error) {
	renewed, err := k.renew(ctx, l, what)
	if errors.Is(err, errNak) {
		return k.renew(ctx, l, discover)
	}
	return renewed, err
}
