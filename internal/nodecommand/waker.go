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

// wakePause is the pause between packets to several nodes, so that they do not all report at the same moment.
const wakePause = 5 * time.Millisecond

// Waker sends running nodes a UDP packet, which makes them report at once instead of within a minute. The packet has no
// content and may be lost.
type Waker struct {
	reg *registry.Registry
	log *slog.Logger
}

// NewWaker returns a Waker of the nodes in a registry.
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

// Nodes wakes, in the background, the nodes that run and that pick selects.
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
		w.log.Warn("nodes cannot be woken", "err", err)
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
			time.Sleep(wakePause)
		}
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, swarm.Port)))
		if err == nil {
			_, err = c.Write([]byte{0})
			c.Close()
		}
		if err != nil {
			w.log.Debug("node cannot be woken", "node", a, "err", err) // the node reports within a minute anyway
		}
	}
}

// Named wakes, in the background, the running nodes among those with these names.
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
