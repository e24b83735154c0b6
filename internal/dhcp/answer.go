package dhcp

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// How long an address that another machine uses is not offered again.
const (
	declinedFor = time.Hour        // to the client that declined it
	conflictFor = 10 * time.Minute // because the probe was answered
)

// View is what was looked up for one request. Answer knows nothing else.
type View struct {
	Mode       Mode        // the present mode, Own or Proxy
	StoppedFor netip.Addr  // the other server because of which Mode is Proxy; renewals are still answered. Zero: none
	Rank       string      // pandoStarting or pandoSettled: the answer to another Pando that looks for servers
	Server     netip.Addr  // this server's address on the client's segment, or the one that a relay reaches
	BootPort   bool        // the packet came to port 4011, PXE's boot service
	Subnet     *Subnet     // of the client; nil: this server serves no subnet that the client is in
	Lease      fleet.Lease // recorded for the MAC; zero: none
	Holder     fleet.Lease // recorded for the address that the client has or requests; zero: none
	Taken      bool        // that address is this server's, a router's, or a DNS or NTP server's
	Known      bool        // the MAC is a node's
	Refused    string      // why the client gets no new address; "": it may get one
	InUse      bool        // another machine answers at the address that the client declines
	Offer      netip.Addr  // reserved for the MAC, and probed; zero: none
	NoOffer    string      // why Offer is zero
	Base       string      // URL of the image port as the client sees it
	Loaders    netboot.Loaders
	Menu       bool // proxy: offer the boot file by a PXE menu of one entry
}

// Reply is what to do about a request.
type Reply struct {
	Packet *dhcpv4.DHCPv4 // to send; nil: nothing
	Save   *fleet.Lease   // to make durable first; nil: nothing
	Free   bool           // drop the reservation of the MAC
	Avoid  netip.Addr     // not to be offered to this MAC for a while; zero: none
	Alert  string         // an error for the log: an operator has to act; "": none
	Seen   Seen
}

// Answer decides about one request. It is a pure function of the packet, the View and the time. While another server
// answers its questions, a server gives no new addresses; it still answers renewals, and gives boot files as a proxy.
func Answer(r Request, v View, now time.Time) Reply {
	out := Reply{Seen: r.seen()}
	out.Seen.Time, out.Seen.Own = now, v.Mode == Own
	switch {
	case v.BootPort:
		bootService(&out, r, v)
	case v.Mode == Own:
		own(&out, r, v, now)
	case v.StoppedFor.IsValid() && r.Type == dhcpv4.MessageTypeRequest && r.Address.IsValid() && v.knows(r, now):
		renew(&out, r, v, now)
	case v.Mode == Proxy && r.Type == dhcpv4.MessageTypeDiscover:
		proxyOffer(&out, r, v)
	default:
		out.Seen.Reason = v.stopped("another server gives the addresses")
	}
	if out.Packet != nil {
		out.Seen.Reply = messageNames[out.Packet.MessageType()]
		out.Seen.Addr = addr(out.Packet.YourIPAddr)
		out.Seen.BootFile = strings.TrimRight(out.Packet.BootFileNameOption(), "\x00")
		if out.Seen.BootFile == "" {
			out.Seen.BootFile = out.Packet.BootFileName
		}
	}
	return out
}

// stopped returns why no address is given, in the same words as everywhere else. If this server did not stop, it
// returns otherwise.
func (v View) stopped(otherwise string) string {
	if !v.StoppedFor.IsValid() {
		return otherwise
	}
	return fmt.Sprintf("this server stopped giving addresses: DHCP server %s answers", v.StoppedFor)
}

func own(out *Reply, r Request, v View, now time.Time) {
	if v.Subnet == nil {
		out.Seen.Reason = "the client is in no subnet that is served here"
		return
	}
	switch r.Type {
	case dhcpv4.MessageTypeDiscover:
		if !v.Offer.IsValid() {
			out.Seen.Reason = v.NoOffer
			return
		}
		out.Packet = leaseReply(r, v, dhcpv4.MessageTypeOffer, v.Offer, &out.Seen)
	case dhcpv4.MessageTypeRequest:
		request(out, r, v, now)
	case dhcpv4.MessageTypeDecline:
		decline(out, r, v, now)
	case dhcpv4.MessageTypeRelease:
		out.Free = true
		// A node keeps its fixed address after a release. Another NIC of the node may take it at once then.
		had := !v.Holder.Static || now.Before(v.Holder.Expires)
		if v.Holder.MAC == r.MAC && had && !v.Holder.Bad && v.Holder.Addr.IsValid() {
			l := v.Holder
			l.Expires = now // the record stays, so that the client gets the same address again
			out.Save = &l
		}
	case dhcpv4.MessageTypeInform:
		out.Packet = informReply(r, v, &out.Seen)
	}
}

// request distinguishes the four states of a client as RFC 2131 section 4.3.2 does.
func request(out *Reply, r Request, v View, now time.Time) {
	switch {
	case r.Server.IsValid() && r.Server != v.Server:
		out.Free = true
		out.Seen.Reason = fmt.Sprintf("the client chose the server %s", r.Server)
	case r.Server.IsValid():
		selecting(out, r, v, now)
	case r.Requested.IsValid() && !r.Address.IsValid():
		initReboot(out, r, v, now)
	case r.Address.IsValid():
		renew(out, r, v, now)
	default:
		out.Seen.Reason = "the request names no address"
	}
}

// selecting answers a client that takes this server's offer. A restart of the server loses the reservation; the offer
// still counts then if no other client has the address.
func selecting(out *Reply, r Request, v View, now time.Time) {
	switch {
	case !r.Requested.IsValid():
		nak(out, r, v, "the request names no address")
	case v.refuses(r, now, r.Requested):
		nak(out, r, v, v.Refused)
	case r.Requested == v.Offer, v.mine(r, now, r.Requested):
		ack(out, r, v, now, r.Requested)
	case v.free(now, r.Requested):
		ack(out, r, v, now, r.Requested)
	default:
		nak(out, r, v, v.notYours(r, now, r.Requested, "not offered to this client"))
	}
}

// initReboot answers a client that remembers an address. Without a record of the address the server must stay silent,
// unless the address belongs to another network.
func initReboot(out *Reply, r Request, v View, now time.Time) {
	switch {
	case !v.Subnet.Usable(r.Requested):
		nak(out, r, v, fmt.Sprintf("%s is not an address of %s", r.Requested, v.Subnet.Prefix))
	case v.refuses(r, now, r.Requested):
		out.Seen.Reason = v.Refused
	case v.mine(r, now, r.Requested) && (!v.Lease.Static || v.Lease.Addr == r.Requested):
		ack(out, r, v, now, r.Requested)
	case v.Holder.Addr.IsValid() || v.Lease.Addr.IsValid():
		nak(out, r, v, v.notYours(r, now, r.Requested, "not this client's address"))
	default:
		out.Seen.Reason = fmt.Sprintf("no record of %s", r.Requested)
	}
}

// renew answers a client that uses its address now. A node keeps it until its next boot, even if an operator has set
// another fixed address since. An address of the range that has no record gets one; other addresses without a record
// may be another server's and get no answer. Only an address that is recorded for another client is denied.
func renew(out *Reply, r Request, v View, now time.Time) {
	switch {
	case v.Subnet == nil:
		out.Seen.Reason = "the client is in no subnet that is served here"
	case v.refuses(r, now, r.Address):
		out.Seen.Reason = v.Refused
	case v.mine(r, now, r.Address), v.free(now, r.Address):
		ack(out, r, v, now, r.Address)
	case v.Holder.Addr == r.Address:
		nak(out, r, v, v.notYours(r, now, r.Address, "another client's"))
	default:
		out.Seen.Reason = fmt.Sprintf("no record of %s", r.Address)
	}
}

// fixed reports whether a is the fixed address of the client's node. Each NIC of the node may use it, one at a time.
func (v View) fixed(a netip.Addr) bool { return v.Lease.Static && v.Lease.Addr == a }

// sibling reports whether a is the fixed address of the client's node and another of the node's NICs has it.
func (v View) sibling(r Request, now time.Time, a netip.Addr) bool {
	return v.fixed(a) && v.Holder.Addr == a && v.Holder.MAC != r.MAC && now.Before(v.Holder.Expires)
}

// knows reports whether the records name the client for the address that it renews.
func (v View) knows(r Request, now time.Time) bool {
	return v.Holder.MAC == r.MAC || v.fixed(r.Address) && !v.sibling(r, now, r.Address)
}

// mine reports whether the records say that a is this client's.
func (v View) mine(r Request, now time.Time, a netip.Addr) bool {
	known := v.Holder.Addr == a
	switch {
	case v.Taken, !v.Subnet.Usable(a), known && v.Holder.Bad && now.Before(v.Holder.Expires), v.sibling(r, now, a):
		return false
	case known:
		return v.Holder.MAC == r.MAC || v.fixed(a)
	}
	return v.Lease.Addr == a
}

// refuses reports whether a machine that is no node is denied an address: View.Refused is set, and the machine has no
// lease of the address.
func (v View) refuses(r Request, now time.Time, a netip.Addr) bool {
	theirs := v.Holder.Addr == a && v.Holder.MAC == r.MAC && now.Before(v.Holder.Expires)
	return v.Refused != "" && v.Subnet.Usable(a) && !theirs && a != v.Offer
}

// free reports whether a is in the dynamic range and has no holder. A node's last address is not free for others.
func (v View) free(now time.Time, a netip.Addr) bool {
	if !v.Subnet.inRange(a) || a == v.Server || v.Taken {
		return false
	}
	return v.Holder.Addr != a ||
		!v.Holder.Static && !now.Before(v.Holder.Expires) && (v.Known || !v.Holder.Known)
}

// notYours returns why an address is denied.
func (v View) notYours(r Request, now time.Time, a netip.Addr, why string) string {
	if v.Taken {
		why = "of this server, or of a router, DNS or NTP server"
	}
	if v.sibling(r, now, a) {
		why = fmt.Sprintf("used by another NIC of the node, %s", v.Holder.MAC)
	}
	return fmt.Sprintf("%s is %s", a, why)
}

func ack(out *Reply, r Request, v View, now time.Time, a netip.Addr) {
	l := fleet.Lease{Addr: a, MAC: r.MAC, Host: v.Lease.Host, Known: v.Known,
		Expires: now.Add(v.Subnet.leaseTime(v.Known))}
	l.Static = v.Lease.Static && v.Lease.Addr == a
	out.Save = &l
	out.Packet = leaseReply(r, v, dhcpv4.MessageTypeAck, a, &out.Seen)
}

func nak(out *Reply, r Request, v View, why string) {
	out.Seen.Reason = why
	out.Free = true
	p := newReply(r, v, dhcpv4.MessageTypeNak)
	p.UpdateOption(dhcpv4.OptMessage(why))
	if r.Relay.IsValid() {
		p.SetBroadcast() // RFC 2131 section 4.3.2: the relay must broadcast it
	}
	out.Packet = p
}

// declines reports whether a DECLINE is about an address that the client has, or was offered.
func (v View) declines(r Request) bool {
	ours := v.Holder.Addr == r.Requested && v.Holder.MAC == r.MAC || v.Offer == r.Requested
	return r.Type == dhcpv4.MessageTypeDecline && r.Requested.IsValid() && ours &&
		(!r.Server.IsValid() || r.Server == v.Server)
}

// decline handles a client's message that another machine uses the address. If the probe finds no such machine, only
// this client is kept from the address, and gets another one.
func decline(out *Reply, r Request, v View, now time.Time) {
	out.Free = true
	a := r.Requested
	if !v.declines(r) {
		out.Seen.Reason = "the declined address is not this client's"
		return
	}
	fixed := v.Lease.Static && v.Lease.Addr == a // an operator set it, so it stays; the log says what is wrong
	if !v.InUse {
		out.Seen.Reason = fmt.Sprintf("declined, but nobody else answers at %s", a)
		if !fixed {
			out.Avoid = a
		}
		return
	}
	out.Alert = fmt.Sprintf("%s found somebody else using %s: look for a machine with that fixed address", r.MAC, a)
	if !fixed {
		out.Save = &fleet.Lease{Addr: a, MAC: r.MAC, Bad: true, Expires: now.Add(conflictFor)}
	}
}
