package dhcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"pando/internal/ratelimit"
)

// How fast unknown machines get addresses: a room of new machines is served within seconds, and a program that invents
// MACs does not use up the range. The switch port is known from relay agent information (option 82).
const (
	unknownBurst = 256
	unknownRate  = 32 // per second
	portBurst    = 64
	portRate     = float64(portBurst) / float64(unknownLeaseTime/time.Second) // per second: 64 addresses at once
	maxPorts     = 1024
)

// unknownLimit limits how many new addresses unknown machines get: all together, and behind each switch port.
type unknownLimit struct {
	mu    sync.Mutex
	all   *ratelimit.Bucket
	ports map[string]*ratelimit.Bucket
}

// take returns why a machine behind a port gets no new address now, "" if it gets one.
func (u *unknownLimit) take(port string, now time.Time) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all, u.ports = ratelimit.New(unknownBurst, unknownRate), map[string]*ratelimit.Bucket{}
	}
	if port != "" && !u.port(port, now).Take(now) {
		return fmt.Sprintf("more than %d machines that are no nodes ask through one port of a switch", portBurst)
	}
	if !u.all.Take(now) {
		return "too many machines that are no nodes ask at once"
	}
	return ""
}

// port returns the bucket of a port. Ports beyond maxPorts share one.
func (u *unknownLimit) port(name string, now time.Time) *ratelimit.Bucket {
	if b := u.ports[name]; b != nil {
		return b
	}
	if len(u.ports) >= maxPorts {
		u.expire(now)
	}
	if len(u.ports) >= maxPorts {
		name = ""
		if b := u.ports[name]; b != nil {
			return b
		}
	}
	b := ratelimit.New(portBurst, portRate)
	u.ports[name] = b
	return b
}

// expire forgets ports whose bucket is full again, with the lock held.
func (u *unknownLimit) expire(now time.Time) {
	for name, b := range u.ports {
		if b.Idle(now) {
			delete(u.ports, name)
		}
	}
}

// admit sets v.Refused if an unknown machine gets no new address now. Nodes are never limited.
func (s *Server) admit(leases Leases, r Request, v *snapshot, now time.Time) error {
	held := v.Holder.MAC == r.MAC && !v.Holder.Bad && now.Before(v.Holder.Expires) ||
		v.Lease.Addr.IsValid() && now.Before(v.Lease.Expires)
	if v.Known || held || v.Offer.IsValid() || !r.takes() || v.Subnet.size() == 0 {
		return nil
	}
	if v.Refused = s.unknown.take(r.port(), now); v.Refused != "" {
		return nil
	}
	use, err := s.ranges.use(leases, *v.Subnet, now)
	if err != nil {
		return err
	}
	if n, most := use.Unknown+s.offers.waiting(*v.Subnet, now), v.Subnet.forUnknown(); n >= most {
		v.Refused = fmt.Sprintf("machines that are no nodes have %d addresses of %s-%s, and the others are for nodes",
			n, v.Subnet.First, v.Subnet.Last)
	}
	return nil
}

// declined probes whether another machine uses an address that a client declines. A DECLINE alone may be forged, and
// must not block the address for all.
func (s *Server) declined(ctx context.Context, l *link, r Request, v *snapshot) {
	if v.Mode != Own || v.Subnet == nil || !v.declines(r) {
		return
	}
	probe := s.prober(l, r)
	if probe == nil {
		return
	}
	_, used, err := probe.probe(ctx, r.Requested, r.MAC)
	if err != nil {
		s.seldom(l, slog.LevelWarn, "declined address not probed", "", "mac", r.MAC, "addr", r.Requested, "err", err)
	}
	v.InUse = used && err == nil
}

// checkRoom warns when less than a tenth of a range is free.
func (s *Server) checkRoom(ctx context.Context, l *link, now time.Time) {
	if l.state(s.Config.Mode).Mode != Own {
		return
	}
	for _, n := range s.Config.Subnets {
		var use Use
		_, err := s.Registry.Snapshot(ctx, Request{}, func(leases Leases) (err error) {
			use, err = s.ranges.use(leases, n, now)
			return err
		})
		if err == nil && use.All > 0 && 10*use.Free() < use.All {
			const hint = "a larger --range, or `pando lease list`"
			due := s.seldom(l, slog.LevelWarn, "less than a tenth of the addresses is free", n.First.String(), "range",
				fmt.Sprintf("%s-%s", n.First, n.Last), "free", use.Free(), "nodes", use.Known, "unknown", use.Unknown,
				"in_use", use.InUse, "hint", hint)
			if due && s.Warn != nil {
				s.Warn(fmt.Sprintf("%d of the %d addresses of %s-%s are free", use.Free(), use.All, n.First, n.Last),
					hint)
			}
		}
	}
}

// takes reports whether this request may give the client an address that it did not have.
func (r Request) takes() bool { return r.Type == dhcpDiscover || r.Type == dhcpRequest }

// port returns the switch port at which the request came in, as reported by a relay agent or by a switch that snoops;
// "" if none did.
func (r Request) port() string {
	b := r.packet.Options.Get(optRelayInfo)
	if len(b) == 0 {
		return ""
	}
	at := r.Relay
	if !at.IsValid() {
		at = netip.IPv4Unspecified()
	}
	return at.String() + " " + string(b)
}
