package link

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"

	"pando/internal/rundir"
)

// Retransmission in one DHCP attempt. The back-off of the caller's phase comes on top.
const (
	DHCPTimeout = 2 * time.Second
	DHCPRetries = 4
)

// Identify returns options for each packet, so that the server sees the same client as firmware and iPXE: they identify
// themselves by MAC.
func Identify(n NIC) []dhcpv4.Modifier {
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

// Discover gets an address by DHCP on one adapter, which only needs a link.
func Discover(ctx context.Context, n NIC) (Lease, error) {
	c, err := nclient4.New(n.Name, nclient4.WithHWAddr(n.Hardware()),
		nclient4.WithTimeout(DHCPTimeout), nclient4.WithRetry(DHCPRetries))
	if err != nil {
		return Lease{}, fmt.Errorf("request an address on %s: %w", n.Name, err)
	}
	defer c.Close()
	got, err := c.Request(ctx, Identify(n)...)
	if err != nil {
		if errors.Is(err, nclient4.ErrNoResponse) || errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("no DHCP server answered")
		}
		return Lease{}, fmt.Errorf("request an address on %s: %w", n.Name, err)
	}
	return NewLease(n, got.ACK, rundir.Monotonic())
}

// DiscoverAny sends requests on all adapters at once and takes the first answer.
func DiscoverAny(ctx context.Context, nics []NIC) (Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		lease Lease
		err   error
	}
	results := make(chan result, len(nics))
	for _, n := range nics {
		go func() {
			l, err := Discover(ctx, n)
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
	return Lease{}, errors.Join(errs...)
}
