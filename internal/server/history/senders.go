package history

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/registry"
)

// maxSenders is how many senders one report of a node may name.
const maxSenders = 65

// Senders records which peers and servers sent nodes their root file systems.
type Senders struct {
	registry *registry.Registry
	nodeAt   func(netip.Addr) string
}

// NewSenders returns a Senders. nodeAt returns the name of the node at an address, "" if unknown.
func NewSenders(reg *registry.Registry, nodeAt func(netip.Addr) string) *Senders {
	return &Senders{registry: reg, nodeAt: nodeAt}
}

// Add records how many bytes of its root each sender sent to a boot. Peers are recorded by the names that their
// addresses have now.
func (s *Senders) Add(ctx context.Context, b registry.Boot, sent map[string]int64) error {
	if len(sent) == 0 || len(sent) > maxSenders {
		return nil
	}
	var n fleet.Node
	err := s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		n, err = tx.Node(b.Node)
		return err
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	f := registry.Feeding{
		Boot:    b.ID,
		Node:    b.Node,
		Started: b.Started,
		Place:   cmp.Or(n.Place(), n.Labels["room"], n.Group),
	}
	for from, bytes := range sent {
		if bytes > 0 {
			sender := s.sender(httpapi.Clip(from, 256))
			sender.Bytes = bytes
			f.From = append(f.From, sender)
		}
	}
	slices.SortFunc(f.From, func(a, b registry.Sender) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Node, b.Node), strings.Compare(a.Other, b.Other))
	})
	return s.registry.PutFeeding(ctx, f)
}

// sender identifies a sender: a peer by its address, a server or bucket by its base URL.
func (s *Senders) sender(from string) registry.Sender {
	addr, err := netip.ParseAddr(from)
	if err == nil {
		if name := s.nodeAt(addr.Unmap()); name != "" {
			return registry.Sender{Node: name}
		}
		return registry.Sender{Other: "node at " + from}
	}
	if u, err := url.Parse(from); err == nil && u.Host != "" {
		return registry.Sender{Other: u.Host}
	}
	return registry.Sender{}
}
