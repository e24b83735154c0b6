package boots

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/bootlog"
	"pando/internal/dhcp"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/lastseen"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/tftp"
	"pando/internal/trace"
)

// observeTime bounds how long a DHCP answer waits for the record of its boot.
const observeTime = 2 * time.Second

// packets records what machines send before they have a kernel, as part of their boots.
type packets struct {
	registry  Registry
	boots     *bootlog.Boots
	discovery *discovery.Machines
	addresses *addresses
	refuser   *refuser
	lastSeen  *lastseen.Times

	givesAddresses func() bool
	dhcpStopped    func() string
	now            func() time.Time
	log            *slog.Logger
}

// Snapshot implements dhcp.Registry. For a machine that boots, its node and its boot are read together with the leases.
func (s *packets) Snapshot(
	ctx context.Context,
	r dhcp.Request,
	read func(dhcp.Leases) error,
) (known dhcp.Known, err error) {
	if read == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, observeTime)
		defer cancel()
	}
	if !recorded(r.MAC, r.Client) {
		if read == nil {
			return known, nil
		}
		return known, s.registry.View(ctx, func(tx *registry.Tx) error { return read(newLeases(tx)) })
	}
	c, err := s.boots.OfWith(ctx, r.MAC, func(tx *registry.Tx) (err error) {
		l := newLeases(tx)
		if known.Node, err = l.nodeOf(r.MAC); err != nil || read == nil {
			return err
		}
		return read(l)
	})
	if err != nil {
		return dhcp.Known{}, err
	}
	known.Menu = c.Menu()
	c.Unlock()
	return known, nil
}

// Commit implements dhcp.Registry: it records leases, the machine's address, and the packet in its boot. The reply
// leaves after Commit returns, so the record is there before the machine can act on the reply.
func (s *packets) Commit(ctx context.Context, change dhcp.Change) error {
	seen := change.Seen
	if err := s.commit(ctx, change); err != nil {
		if len(change.Leases) > 0 {
			return err
		}
		s.log.Error("boot cannot be recorded", "mac", seen.MAC, "err", err)
	}
	s.addresses.seen.note(seen.MAC, seen.HasAddress(), s.now())
	return nil
}

func (s *packets) commit(ctx context.Context, change dhcp.Change) error {
	if len(change.Leases) == 0 { // the reply does not depend on what is recorded
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), observeTime)
		defer cancel()
	}
	if recorded(change.Seen.MAC, change.Seen.Client) {
		return s.packet(ctx, change)
	}
	if len(change.Leases) == 0 {
		return nil
	}
	return s.registry.UpdateBoot(ctx, change.Seen.MAC,
		func(tx *registry.Tx) error { return putLeases(tx, change.Leases) })
}

// recorded reports whether the packets of a machine belong to a boot.
func recorded(mac fleet.MAC, client netboot.Client) bool { return client.Boots() && mac.OfOne() }

// packet records a packet of firmware or boot loader in its boot.
func (s *packets) packet(ctx context.Context, change dhcp.Change) error {
	seen := change.Seen
	c, err := s.boots.Of(ctx, seen.MAC)
	if err != nil {
		return err
	}
	defer c.Unlock()
	now := s.now()
	isNew := !c.UnderWay(now)
	if isNew && s.runs(c, now) || !isNew && c.Restarted(now, seen.Client.Kind != netboot.IPXE) {
		c.Knocked(now, clientText(seen), exchanged(seen)...)
		if len(change.Leases) == 0 {
			return nil
		}
		return s.registry.UpdateBoot(ctx, c.MAC,
			func(tx *registry.Tx) error { return putLeases(tx, change.Leases) })
	}
	if isNew {
		s.boots.Follow(c, now)
	}
	switch {
	case seen.Client.Kind == netboot.IPXE:
		c.Taken() // this server may not have seen the end of the transfer
	case seen.Client.Kind == netboot.PXE && seen.Message == "DISCOVER" && seen.Reply == "OFFER" && !seen.Own:
		c.Offered()
	}
	addr := seen.HasAddress()
	if err := s.note(ctx, c, change, addr, isNew); err != nil {
		return err
	}
	if isNew {
		if c.DHCP == "" {
			s.boots.RecordBehind(c, trace.Event{Stage: trace.DHCP, Kind: trace.Begin, Message: clientText(seen)})
			c.DHCP = trace.Begin
		}
		if why := s.dhcpStopped(); why != "" {
			s.boots.RecordBehind(c,
				trace.Event{Stage: trace.DHCP, Kind: trace.Info, Message: why, Hint: api.StoppedHint})
		}
	}
	if seen.Reply == "" && seen.Reason != "" && seen.Message == "DISCOVER" && s.givesAddresses() {
		s.boots.FailBehind(c, trace.DHCP, "no address for this machine: "+seen.Reason,
			"look at the range that is given out, and at `pando doctor`")
	}
	if seen.Reply == "NAK" {
		s.boots.NoteBehind(c, trace.DHCP, "address refused: "+seen.Reason, "firmware asks for another one now")
	}
	if strings.HasPrefix(seen.Reason, netboot.NoBootFile) {
		s.boots.FailBehind(c, trace.BootFile, seen.Reason, "")
	}
	if addr.IsValid() && c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, addr)
	}
	if !c.Told && toldScript(seen) {
		c.Told = true
		s.boots.RecordBehind(c, trace.Event{Stage: trace.BootFile, Kind: trace.Info,
			Message: "iPXE runs and was told the address of its script",
			Attrs:   map[string]string{trace.AttrScriptAt: seen.BootFile}})
	}
	return nil
}

// clientText describes the sender of a packet, for people.
func clientText(seen dhcp.Seen) string {
	return string(seen.Client.Kind) + ", " + seen.Client.Arch.String()
}

// exchanged returns the event for the end of a machine's DHCP exchange, if the packet ends it.
func exchanged(seen dhcp.Seen) []trace.Event {
	addr := seen.HasAddress()
	if !addr.IsValid() {
		return nil
	}
	return []trace.Event{{Stage: trace.DHCP, Kind: trace.End, Attrs: map[string]string{"address": addr.String()}}}
}

// runsFor is how long after its last report a machine counts as running: it reports about once a minute.
const runsFor = 90 * time.Second

// runs reports whether the machine of a boot runs, by its own reports. Anybody can send a packet with its MAC, so a
// packet begins no new boot while it runs. The request for a script does, or a packet after it has become silent. The
// boot's lock is held.
func (s *packets) runs(c *bootlog.Entry, now time.Time) bool {
	return !c.Boot.Session.IsZero() && s.lastSeen.MayRun(c.MAC, now, runsFor)
}

// toldScript reports whether a packet told iPXE where its script is. iPXE requests the script next.
func toldScript(seen dhcp.Seen) bool {
	told := seen.Reply == "ACK" || seen.Reply == "OFFER" && !seen.Own
	return told && seen.Client.Kind == netboot.IPXE && strings.HasSuffix(seen.BootFile, netboot.ScriptPath)
}

// note records, in one write, the leases of a packet and what is new in it about its machine and boot.
func (s *packets) note(ctx context.Context, c *bootlog.Entry, packet dhcp.Change, addr netip.Addr, isNew bool) error {
	now, node, client := s.now(), packet.Node, packet.Seen.Client
	change := func(b *registry.Boot) {
		b.Node = node.Name
		if client.Kind != netboot.IPXE || b.Firmware == "" {
			b.Firmware = client.Arch.String()
		}
		if addr.IsValid() {
			b.Addr, b.Exchanged = addr, now
		}
	}
	if addr.IsValid() {
		s.boots.SetAddr(c, addr)
	}
	c.Boot.Node = node.Name
	write, err := s.discovery.ForPacket(node, c.MAC, client.UUID)
	refused := errors.Is(err, discovery.ErrTooMany)
	if err != nil && !refused {
		return err
	}
	saves := isNew || !c.Saved || addr.IsValid()
	if len(packet.Leases) > 0 || !refused && (write != nil || saves) {
		err := s.boots.SaveWith(ctx, c, func(tx *registry.Tx) (bool, error) {
			if err := putLeases(tx, packet.Leases); err != nil || refused {
				return false, err
			}
			if write != nil {
				if _, err := write(tx); errors.Is(err, discovery.ErrTooMany) {
					refused = true
					return false, nil
				} else if err != nil {
					return false, err
				}
			}
			var err error
			node, err = newLeases(tx).nodeOf(c.MAC) // an operator may have renamed the node since it was read
			return saves && err == nil, err
		}, change)
		if err != nil {
			return err
		}
	}
	if refused {
		change(&c.Boot) // in memory only: no more unknown machines can be recorded now
		return nil
	}
	c.Boot.Node = node.Name
	return nil
}

// ObserveTFTP records a finished TFTP transfer.
func (s *packets) ObserveTFTP(t tftp.Transfer) {
	if t.Probe() || t.Size == 0 && t.Err != nil {
		s.log.Debug("tftp: file not sent", "peer", t.Peer, "name", t.Name, "err", t.Err)
		if !t.Probe() {
			s.refuser.noFile(t)
		}
		return
	}
	s.BootFileSent(t.Peer.Addr().Unmap(), t.Name, t.Bytes, t.Started, t.Err)
}

// BootFileSent records the transfer of a boot file in the boot of the machine at an address. The machine's next DHCP
// packet does not wait for the write.
func (s *packets) BootFileSent(peer netip.Addr, name string, n int64, started time.Time, err error) {
	c := s.boots.At(peer)
	if c == nil || strings.HasSuffix(name, ".ipxe") {
		return
	}
	c.Lock()
	defer c.Unlock()
	attrs := map[string]string{"file": name}
	begin := trace.Event{Time: started, Stage: trace.BootFile, Kind: trace.Begin, Attrs: attrs}
	end := trace.Event{Stage: trace.BootFile, Kind: trace.End, Bytes: bootlog.BytesK(n), Attrs: attrs}
	if now := s.now(); s.runs(c, now) || c.UnderWay(now) && c.Restarted(now, true) {
		if err == nil {
			c.Knocked(now, "", begin, end)
		}
		return
	}
	c.Taken()
	if c.DHCP == trace.Begin { // as proxy this server may not have seen the end of the exchange
		s.boots.DHCPDone(c, peer)
	}
	if err != nil {
		s.boots.RecordBehind(c, begin, trace.Event{Stage: trace.BootFile, Kind: trace.Fail, Attrs: attrs,
			Message: "boot file " + name + " did not arrive: " + err.Error(), Hint: "is UDP open between the node " +
				"and this server, for port 69 and for ports above 1023?"})
		return
	}
	s.boots.RecordBehind(c, begin, end)
}
