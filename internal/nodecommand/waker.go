package nodecommand

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/swarm"
)

// nudgesEach is the pause between packets to several nodes, so that they do not all report in one moment.
const nudgesEach = 5 * time.Millisecond

// Waker sends running nodes a UDP packet, on which they report at once instead of within a minute. The packet says
// nothing and may be lost.
type Waker struct {
	reg *registry.Registry
	log *slog.Logger
}

// NewWaker returns a waker of the nodes in a registry.
func NewWaker(reg *registry.Registry, log *slog.Logger) *Waker { return &Waker{reg: reg, log: log} }

// Boot wakes the node of one boot.
func (w *Waker) Boot(ctx context.Context, id fleet.BootID) {
	var b registry.Boot
	err := w.reg.View(ctx, func(tx *registry.Tx) (err error) {
		b, err = tx.Boot(id)
		return err
	})
	if err == nil {
		w.send([]netip.Addr{b.Addr})
	}
}

// Nodes wakes the running ones among the nodes that pick selects, in the background.
func (w *Waker) Nodes(ctx context.Context, pick func(fleet.Node) bool) {
	var addrs []netip.Addr
	err := w.reg.View(ctx, func(tx *registry.Tx) error {
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
		w.log.Warn("nodes not woken", "err", err)
		return
	}
	go w.send(addrs)
}

func (w *Waker) send(addrs []netip.Addr) {
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
			w.log.Debug("wake", "node", a, "err", err) // it reports within a minute
		}
	}
}

// Named wakes the running ones among some nodes, in the background.
func (w *Waker) Named(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	named := make(map[string]bool, len(names))
	for _, n := range names {
		named[n] = true
	}
	w.Nodes(ctx, func(n fleet.Node) bool { return named[n.Name] })
}
