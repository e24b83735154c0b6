package server

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

// maxSenders is how many senders a node may name.
const maxSenders = 65

// keepFeeding keeps who sent a boot its root, under the names that addresses have now.
func (s *Server) keepFeeding(ctx context.Context, b registry.Boot, fed map[string]int64) error {
	if len(fed) == 0 || len(fed) > maxSenders {
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
	for from, bytes := range fed {
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

// sender finds who a node means: a peer by its address, a server or bucket by its base URL.
func (s *Server) sender(from string) registry.Sender {
	addr, err := netip.ParseAddr(from)
	if err == nil {
		if c := s.boots.At(addr.Unmap()); c != nil {
			c.Lock()
			defer c.Unlock()
			if c.Boot.Node != "" {
				return registry.Sender{Node: c.Boot.Node}
			}
		}
		return registry.Sender{Other: "node at " + from}
	}
	if u, err := url.Parse(from); err == nil && u.Host != "" {
		return registry.Sender{Other: u.Host}
	}
	return registry.Sender{}
}
