package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pando/internal/backoff"
	"pando/internal/hardware"
)

// How long a link is waited for, how often it is looked for, and for how long others are waited for once one is up.
const (
	carrierFor  = 15 * time.Second // gigabit negotiation takes 2 to 4 s, bad cables longer
	carrierPoll = 20 * time.Millisecond
	carrierMore = 200 * time.Millisecond
)

// WaitCarrier returns the adapters that have a link: those of the first moment that one has, and of a moment more.
func WaitCarrier(ctx context.Context, nics []NIC) ([]NIC, error) {
	var errs []error
	for _, n := range nics {
		if err := Up(n.Index); err != nil {
			errs = append(errs, err)
		}
	}
	deadline := time.Now().Add(carrierFor)
	for {
		up := withCarrier(nics)
		if len(up) > 0 && len(up) < len(nics) {
			if err := backoff.Sleep(ctx, carrierMore); err != nil {
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
		if err := backoff.Sleep(ctx, carrierPoll); err != nil {
			return nil, err
		}
	}
}

func withCarrier(nics []NIC) []NIC {
	var up []NIC
	for _, n := range nics {
		if n.carrier(hardware.Sysfs) {
			up = append(up, n)
		}
	}
	return up
}

// Names lists adapters for a person: "eth0 (e1000e, 52:54:00:12:34:56)".
func Names(nics []NIC) string {
	var out []string
	for _, n := range nics {
		out = append(out, fmt.Sprintf("%s (%s, %s)", n.Name, n.Driver, n.MAC))
	}
	if len(out) == 0 {
		return "no adapter"
	}
	return strings.Join(out, ", ")
}
