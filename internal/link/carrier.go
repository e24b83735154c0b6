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

// How long WaitCarrier waits for a link, how often it checks, and how long it waits for more links once one is up.
const (
	carrierFor  = 15 * time.Second // gigabit negotiation takes 2 to 4 s, bad cables longer
	carrierPoll = 20 * time.Millisecond
	carrierMore = 200 * time.Millisecond
)

// WaitCarrier returns the adapters that have a link. It returns a short time after the first adapter got one. The
// result is empty, without an error, if no adapter got a link in time and all could be brought up.
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

// Names returns adapters for people: "eth0 (e1000e, 52:54:00:12:34:56)".
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
