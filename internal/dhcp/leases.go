package dhcp

import (
	"context"
	"net/netip"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// Registry is the durable record of leases, nodes and boots. Implementations are safe for concurrent use. A packet
// costs one Snapshot and one Commit. Only after an answered probe the records are read again.
type Registry interface {
	// Snapshot reads what is recorded for the client of a request and, through read, leases. All of it is one state of
	// the records. read does not wait for the network; nil: no lease is looked up.
	Snapshot(ctx context.Context, r Request, read func(Leases) error) (Known, error)
	// Commit records what a packet changes, all or nothing. The change is durable when Commit returns; calls at the
	// same time should share a write. The reply waits for it. Without leases, Commit logs a failure and returns nil.
	Commit(ctx context.Context, c Change) error
}

// Known is what is recorded for a client.
type Known struct {
	Node fleet.Node // zero: none
	Menu bool       // its firmware seems to ignore a boot file that comes without a PXE menu
}

// Change is what a packet changes in the records.
type Change struct {
	Node   fleet.Node    // of the client, as Snapshot returned it
	Leases []fleet.Lease // each in place of what is recorded for its address and, unless it is Bad, for its MAC
	Seen   Seen
}

// Leases are the records of addresses at one moment. Lease.Host is the name that the client is told (option 12), the
// same for all NICs of a node, "" for none. Lease.Known: the MAC belongs to a node that has registered or that an
// operator declared; what a machine reports about itself does not make it known.
type Leases interface {
	// LeaseByMAC returns what is recorded for a MAC, expired or not; Known is valid also if nothing is found. A node's
	// fixed address is a lease with Static set, even if no NIC ever took it. Each of the node's MACs gets it in
	// preference to a dynamic lease.
	LeaseByMAC(mac fleet.MAC) (lease fleet.Lease, found bool, err error)
	// LeaseByAddr returns the lease of an address, expired or not. It finds fixed addresses too, so that no other
	// client gets them. MAC and Expires of a fixed address tell which NIC took it last and until when (zero: none did).
	LeaseByAddr(addr netip.Addr) (lease fleet.Lease, found bool, err error)
	// LeasesIn returns the result of LeaseByAddr for every address from first to last that has a record, in one query.
	// The MAC of a fixed address may be left out.
	LeasesIn(first, last netip.Addr) ([]fleet.Lease, error)
}

// Seen is one packet of a client and the answer to it. It is committed before the answer is sent, so that the records
// have the exchange before the client can act on it.
type Seen struct {
	Time      time.Time
	Interface string
	MAC       fleet.MAC
	Message   string // "DISCOVER", "REQUEST", "DECLINE", "RELEASE", "INFORM"
	Client    netboot.Client
	Requested netip.Addr // the address that the client requests or has; zero: none
	Server    netip.Addr // server identifier: the server that the client chose; zero: none
	Relay     netip.Addr // giaddr; zero: not relayed
	HostName  string     // the name that the client reports

	Own      bool       // this server gives addresses, so the client has only what it acknowledged
	Reply    string     // "OFFER", "ACK", "NAK"; "" when nothing is answered
	Addr     netip.Addr // given by this reply; zero for a proxy's
	BootFile string     // in this reply
	Reason   string     // why there is no answer, or a NAK; for people
}

// HasAddress returns the address that the client has or is about to have, as far as this packet shows: the one that
// this server acknowledges or, for a proxy, the one that the client requests from another server. Zero: the packet
// shows none.
func (s Seen) HasAddress() netip.Addr {
	switch {
	case s.Reply == "ACK" && s.Addr.IsValid():
		return s.Addr
	case s.Message == "REQUEST" && !s.Own && s.Reply != "NAK":
		return s.Requested
	}
	return netip.Addr{}
}

// Found is another DHCP server, or boot server, on a segment.
type Found struct {
	Interface string
	Server    netip.Addr // server identifier
	Offers    netip.Addr // address it offered; zero: it is a proxy, or it was seen and did not offer
	Proxy     bool       // it sends boot files and gives no addresses
	Pando     string     // another Pando that gives addresses: pandoStarting or pandoSettled; "": something else
	How       string     // "offer": it answered this server; "request": a client's packet chose it
}
