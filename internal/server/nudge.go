package server

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"pando/internal/fleet"
	"pando/internal/swarm"

	"pando/internal/registry"
)

// nudgesEach is the pause between nudges of several nodes: they do not all speak in one moment.
const nudgesEach = 5 * time.Millisecond

// nudger has running nodes speak now, and not when they would have, within about a minute. It sends an empty word
// without a promise.
type nudger struct {
	reg *registry.Registry
	log *slog.Logger
}

// boot nudges the node of one boot.
func (n *nudger) boot(ctx context.Context, id fleet.BootID) {
	var b registry.Boot
	err := n.reg.View(ctx, func(tx *registry.Tx) (err error) {
		b, err = tx.Boot(id)
		return err
	})
	if err == nil {
		n.send([]netip.Addr{b.Addr})
	}
}

// nodes nudges those nodes that run, in the background.
func (n *nudger) nodes(ctx context.Context, pick func(fleet.Node) bool) {
	var addrs []netip.Addr
	err := n.reg.View(ctx, func(tx *registry.Tx) error {
		nodes, err := tx.Nodes()
		if err != nil {
			return err
		}
		boots, err := tx.LatestBoots()
		for _, x := range nodes {
			if b := boots[x.Name]; pick(x) && !b.Session.IsZero() {
				addrs = append(addrs, b.Addr)
			}
		}
		return err
	})
	if err != nil {
		n.log.Warn("nodes are not nudged", "err", err)
		return
	}
	go n.send(addrs)
}

func (n *nudger) send(addrs []netip.Addr) {
	for i, a := range addrs {
		if !a.IsValid() {
			continue
		}
		if i > 0 {
			time.Sleep(nudgesEach)
		}
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, swarm.Port)))
		if err == nil {
			_, err = c.Write([]byte{0})
			c.Close()
		}
		if err != nil {
			n.log.Debug("nudge", "node", a, "err", err) // it speaks within a minute
		}
	}
}
