package dhcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
)

// snapshot is what the answer to one packet is made from.
type snapshot struct {
	View
	node       fleet.Node
	allocation *allocation // the search for an address to offer; nil: none
}

// view looks up what Answer needs to know for a request, in one read of the records.
func (s *Server) view(ctx context.Context, l *link, r Request, boot bool, now time.Time) (snapshot, error) {
	st := l.state(s.Config.Mode)
	v := snapshot{View: View{
		Mode:       st.Mode,
		StoppedFor: st.StoppedFor,
		Server:     st.Address,
		BootPort:   boot,
		Loaders:    s.Config.loaders(),
	}}
	if err := s.records(ctx, l, r, &v, now); err != nil {
		return v, err
	}
	s.declined(ctx, l, r, &v)
	if v.allocation != nil {
		var err error
		if v.Offer, v.NoOffer, err = v.allocation.finish(ctx); err != nil {
			return v, err
		}
	}
	v.Base = s.base(v.Server)
	return v, nil
}

// base returns the URL of the image port for a client that is answered from the address server.
func (s *Server) base(server netip.Addr) string {
	if s.Config.BaseURL != "" {
		return s.Config.BaseURL
	}
	return fmt.Sprintf("http://%s:%d", server, cmp.Or(s.Config.DataPort, DefaultDataPort))
}

// records takes the snapshot. Where no address is given out, the answer does not depend on it.
func (s *Server) records(ctx context.Context, l *link, r Request, v *snapshot, now time.Time) error {
	if s.Config.Mode == Own && !v.BootPort {
		known, err := s.Registry.Snapshot(ctx, r, func(leases Leases) error { return s.lookUp(leases, l, r, v, now) })
		v.node = known.Node
		return err
	}
	known, err := s.Registry.Snapshot(ctx, r, nil)
	if err != nil {
		s.seldom(l, slog.LevelError, "node and boot not read", "", "mac", r.MAC, "err", err)
	}
	v.node, v.Menu = known.Node, known.Menu
	return nil
}

// lookUp fills in the leases, and for a DISCOVER begins the search for an address to offer.
func (s *Server) lookUp(leases Leases, l *link, r Request, v *snapshot, now time.Time) error {
	mine, found, err := leases.LeaseByMAC(r.MAC)
	if err != nil {
		return fmt.Errorf("look up the lease of %s: %w", r.MAC, err)
	}
	v.Known = mine.Known || found && mine.Static
	if found && !mine.Bad {
		v.Lease = mine
	}
	v.Subnet = s.subnet(l, r, v.Lease.Addr)
	if v.Subnet == nil {
		return nil
	}
	v.Server = l.within(v.Subnet.Prefix)
	asked := r.Requested
	if r.Address.IsValid() {
		asked = r.Address
	}
	if asked.IsValid() {
		v.Taken = v.Subnet.serves(asked) || l.has(asked)
		if h, found, err := leases.LeaseByAddr(asked); err != nil {
			return fmt.Errorf("look up who has %s: %w", asked, err)
		} else if found {
			v.Holder = h
		}
	}
	v.Offer, _ = s.offers.get(r.MAC, now)
	if v.Mode != Own {
		return nil
	}
	if err := s.admit(leases, r, v, now); err != nil {
		return err
	}
	if r.Type == dhcpDiscover && v.Refused != "" {
		v.NoOffer = v.Refused
		s.seldom(l, slog.LevelWarn, "no address for a machine that is no node", "", "mac", r.MAC, "why", v.Refused)
	}
	if v.Refused != "" || r.Type != dhcpv4.MessageTypeDiscover {
		return nil
	}
	mine.Known = v.Known
	if !found || mine.Bad {
		mine = fleet.Lease{Known: v.Known}
	}
	v.allocation, err = s.allocator(l, r, *v.Subnet).begin(leases, r, *v.Subnet, mine, now)
	return err
}

func (s *Server) allocator(l *link, r Request, subnet Subnet) *allocator {
	p := &allocator{ranges: &s.ranges, offers: &s.offers}
	p.again = func(ctx context.Context, read func(Leases) error) error {
		_, err := s.Registry.Snapshot(ctx, Request{MAC: r.MAC}, read)
		return err
	}
	p.warn = func(msg string, args ...any) { s.seldom(l, slog.LevelError, msg, fmt.Sprint(args...), args...) }
	p.info = func(msg string, args ...any) { s.seldom(l, slog.LevelInfo, msg, fmt.Sprint(args...), args...) }
	p.avoid = func(a netip.Addr) bool { return subnet.serves(a) || l.has(a) }
	p.probe = s.prober(l, r)
	return p
}

// prober returns the prober for addresses on the client's segment; nil: addresses are not probed.
func (s *Server) prober(l *link, r Request) prober {
	switch {
	case s.Config.NoProbe:
		return nil
	case r.Relay.IsValid():
		return echoProber{}
	}
	return l.arp
}

// subnet returns the client's network: the one that its relay names (RFC 3527 before giaddr), or one that the interface
// has an address in, preferably the one of the client's recorded address.
func (s *Server) subnet(l *link, r Request, mine netip.Addr) *Subnet {
	if r.Relay.IsValid() {
		at := r.Relay
		if info := r.packet.RelayAgentInfo(); info != nil {
			if a := addr(info.Get(dhcpv4.LinkSelectionSubOption)); a.IsValid() {
				at = a
			}
		}
		return s.subnetOf(at)
	}
	var first *Subnet
	for _, own := range l.prefixes() {
		n := s.subnetOf(own.Addr())
		if n == nil {
			continue
		}
		if n.Prefix.Contains(mine) {
			return n
		}
		if first == nil {
			first = n
		}
	}
	return first
}

func (s *Server) subnetOf(a netip.Addr) *Subnet {
	for i := range s.Config.Subnets {
		if s.Config.Subnets[i].Prefix.Contains(a) {
			return &s.Config.Subnets[i]
		}
	}
	return nil
}
