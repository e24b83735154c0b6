package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
)

// Retransmission of one DHCP attempt; the phase's back-off comes on top.
const (
	dhcpTimeout = 2 * time.Second
	dhcpRetries = 4
)

// identify puts into each packet what makes the server see the same client as firmware and iPXE showed it:
// they identify themselves by MAC, and so does this.
func identify(n nic) []dhcpv4.Modifier {
	id := append([]byte{1}, n.MAC[:]...)
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(VendorClass)),
		dhcpv4.WithOption(dhcpv4.OptClientIdentifier(id)),
		dhcpv4.WithRequestedOptions(dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer,
			dhcpv4.OptionHostName, dhcpv4.OptionDomainName, dhcpv4.OptionInterfaceMTU,
			dhcpv4.OptionClasslessStaticRoute, dhcpv4.OptionIPAddressLeaseTime,
			dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue),
	}
}

// discover asks for an address on one adapter, which needs a link and nothing else.
func discover(ctx context.Context, n nic) (lease, error) {
	c, err := nclient4.New(n.Name, nclient4.WithHWAddr(n.hardware()),
		nclient4.WithTimeout(dhcpTimeout), nclient4.WithRetry(dhcpRetries))
	if err != nil {
		return lease{}, fmt.Errorf("ask for an address on %s: %w", n.Name, err)
	}
	defer c.Close()
	got, err := c.Request(ctx, identify(n)...)
	if err != nil {
		if errors.Is(err, nclient4.ErrNoResponse) || errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("no DHCP server answered")
		}
		return lease{}, fmt.Errorf("ask for an address on %s: %w", n.Name, err)
	}
	return newLease(n, got.ACK, monotonic())
}

// discoverAny asks on all adapters at once and takes the first answer.
func discoverAny(ctx context.Context, nics []nic) (lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lease lease
		err   error
	}
	results := make(chan result, len(nics))
	for _, n := range nics {
		go func() {
			l, err := discover(ctx, n)
			results <- result{l, err}
		}()
	}
	var errs []error
	for range nics {
		r := <-results
		if r.err == nil {
			return r.lease, nil
		}
		errs = append(errs, r.err)
	}
	return lease{}, errors.Join(errs...)
}
