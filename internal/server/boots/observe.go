package boots

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"pando/internal/bootlog"
	"pando/internal/dhcp"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// observeTime bounds how long a DHCP answer waits for the record of its boot.
const observeTime = 2 * time.Second

// ObserveDHCP takes notice of a packet: which address the machine has, and which boot the packet belongs to. The answer
// leaves after it returns, so the record is there before the machine can act on the answer.
func (s *Service) ObserveDHCP(seen dhcp.Seen) {
	s.exchanges.note(seen.MAC, seen.HasAddress(), s.now())
	if !seen.Client.Boots() || !seen.MAC.OfOne() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), observeTime)
	defer cancel()
	if err := s.packet(ctx, seen); err != nil {
		s.log.Error("boot not recorded", "mac", seen.MAC, "err", err)
	}
}

// packet puts a packet of firmware or boot loader into its boot.
func (s *Service) packet(ctx context.Context, seen dhcp.Seen) error {
	var node fleet.Node
	c, err := s.boots.OfWith(ctx, seen.MAC, func(tx *registry.Tx) (err error) {
		if node, err = tx.NodeByMAC(seen.MAC); errors.Is(err, registry.ErrNotFound) {
			node, err = fleet.Node{}, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	defer c.Unlock()
	now := s.now()
	isNew := !c.UnderWay(now)
	if isNew {
		c.Begin(now)
	}
	addr := seen.HasAddress()
	if err := s.note(ctx, c, node, seen, addr, isNew); err != nil {
		return err
	}
	if isNew {
		what := string(seen.Client.Kind) + ", " + seen.Client.Arch.String()
		s.boots.RecordBehind(c, trace.Event{Stage: trace.DHCP, Kind: trace.Begin, Message: what})
		c.DHCP = trace.Begin
	}
	if seen.Reply == "" && seen.Reason != "" && seen.Message == "DISCOVER" && s.givesAddresses() {
		s.boots.FailBehind(c, trace.DHCP, "no address for this machine: "+seen.Reason,
			"look at the range that is given out, and at `pando doctor`")
	}
	if strings.HasPrefix(seen.Reason, netboot.NoBootFile) {
		s.boots.FailBehind(c, trace.BootFile, seen.Reason, "")
	}
	if addr.IsValid() && c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, addr)
	}
	return nil
}

// note records in one write what a packet tells of its machine and boot, if it tells something new. node is the one that
// has the MAC, the zero Node if there is none.
func (s *Service) note(
	ctx context.Context,
	c *bootlog.Entry,
	node fleet.Node,
	seen dhcp.Seen,
	addr netip.Addr,
	isNew bool,
) error {
	now := s.now()
	change := func(b *registry.Boot) {
		b.Node = node.Name
		if seen.Client.Kind != netboot.IPXE || b.Firmware == "" {
			b.Firmware = seen.Client.Arch.String()
		}
		if addr.IsValid() {
			b.Addr, b.Exchanged = addr, now
		}
	}
	if addr.IsValid() {
		s.boots.SetAddr(c, addr)
	}
	c.Boot.Node = node.Name
	write, err := s.discovery.ForPacket(node, c.MAC, seen.Client.UUID)
	if errors.Is(err, discovery.ErrTooMany) {
		change(&c.Boot) // in memory only: a machine that is not worth a record now
		return nil
	}
	saves := isNew || !c.Saved || addr.IsValid()
	if err != nil || write == nil && !saves {
		return err
	}
	err = s.boots.SaveWith(ctx, c, func(tx *registry.Tx) (bool, error) {
		if write != nil {
			if node, err = write(tx); err != nil {
				return false, err
			}
		}
		return saves, nil
	}, change)
	if errors.Is(err, discovery.ErrTooMany) {
		node = fleet.Node{}
		change(&c.Boot)
		return nil
	}
	if err == nil {
		c.Boot.Node = node.Name
	}
	return err
}

// ObserveTFTP takes notice of a finished TFTP transfer.
func (s *Service) ObserveTFTP(t tftp.Transfer) {
	if t.Probe() || t.Size == 0 && t.Err != nil {
		s.log.Debug("tftp: no transfer", "peer", t.Peer, "name", t.Name, "err", t.Err)
		return
	}
	s.BootFileSent(t.Peer.Addr().Unmap(), t.Name, t.Bytes, t.Started, t.Err)
}

// BootFileSent puts the transfer of a boot file into the boot of the machine at an address.
func (s *Service) BootFileSent(peer netip.Addr, name string, n int64, started time.Time, err error) {
	c := s.boots.At(peer)
	if c == nil || strings.HasSuffix(name, ".ipxe") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), observeTime)
	defer cancel()
	c.Lock()
	defer c.Unlock()
	if c.DHCP == trace.Begin { // as proxy the end of the exchange may have gone past us
		s.boots.DHCPDone(c, peer)
	}
	attrs := map[string]string{"file": name}
	begin := trace.Event{Time: started, Stage: trace.BootFile, Kind: trace.Begin, Attrs: attrs}
	if err != nil {
		s.boots.Record(ctx, c, begin, trace.Event{Stage: trace.BootFile, Kind: trace.Fail, Attrs: attrs,
			Message: "boot file " + name + " did not arrive: " + err.Error(), Hint: "is UDP open between the node " +
				"and this server, for port 69 and for ports above 1023?"})
		return
	}
	s.boots.Record(ctx, c, begin, trace.Event{Stage: trace.BootFile, Kind: trace.End, Bytes: bootlog.BytesK(n), Attrs: attrs})
}

// proven reports whether it is known that the machine with this MAC has this address: from an exchange that was
// seen within max, in memory or on record, or from the ARP table for a machine that was heard of within max. A
// DHCP packet is easily forged; so whatever was seen, it is no proof where the ARP table knows another machine by
// this address.
func (s *Service) proven(c *bootlog.Entry, mac fleet.MAC, addr netip.Addr, within time.Duration) bool {
	now := s.now()
	fresh := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) <= within }
	got, known := s.Neighbour(addr)
	if known && got != mac {
		return false
	}
	if fresh(s.exchanges.shown(mac, addr)) || c.Boot.Addr == addr && fresh(c.Boot.Exchanged) {
		return true
	}
	// As proxy, or after standing down, the answer of another server gave the address. Where DHCP is another's
	// business altogether, nothing of it is heard, and the ARP table is all there is.
	return known && (s.dhcpOff() || fresh(s.exchanges.heard(mac)))
}
