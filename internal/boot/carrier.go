package boot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// How long a link is waited for, how often it is looked for, and for how long others are waited for once one is up.
const (
	carrierFor  = 15 * time.Second // gigabit negotiation takes 2 to 4 s, bad cables longer
	carrierPoll = 20 * time.Millisecond
	carrierMore = 200 * time.Millisecond
)

// waitCarrier returns the adapters that have a link: those of the first moment that one has, and of a moment more.
func waitCarrier(ctx context.Context, nics []nic) ([]nic, error) {
	var errs []error
	for _, n := range nics {
		if err := linkUp(n.Index); err != nil {
			errs = append(errs, err)
		}
	}
	deadline := time.Now().Add(carrierFor)
	for {
		up := withCarrier(nics)
		if len(up) > 0 && len(up) < len(nics) {
			if err := sleep(ctx, carrierMore); err != nil {
				return nil, err
			}
			up = withCarrier(nics)
		}
		if len(up) > 0 {
			return up, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(errs...)
		}
		if err := sleep(ctx, carrierPoll); err != nil {
			return nil, err
		}
	}
}

func withCarrier(nics []nic) []nic {
	var up []nic
	for _, n := range nics {
		if n.carrier(sysfs) {
			up = append(up, n)
		}
	}
	return up
}

// nicNames lists adapters for a person: "eth0 (e1000e, 52:54:00:12:34:56)".
func nicNames(nics []nic) string {
	var out []string
	for _, n := range nics {
		out = append(out, fmt.Sprintf("%s (%s, %s)", n.Name, n.Driver, n.MAC))
	}
	if len(out) == 0 {
		return "no adapter"
	}
	return strings.Join(out, ", ")
}
