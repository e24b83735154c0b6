package volumes

import (
	"context"
	"errors"
	"net"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/registry"
	"pando/internal/volume"
)

// swapsDir is the directory of nodes' swap space, in the data directory.
const swapsDir = "swap"

// wantedSwap sets in a ticket the swap space that a node's settings ask for. A boot with pages in its swap space gets
// that space again, whatever the settings are now. If the space is lost, the boot gets an error at once instead of
// waiting for ever.
func (s *Service) wantedSwap(ctx context.Context, x *ticket) error {
	node := x.boot.Node
	if x.used {
		if s.swaps.Has(node, string(x.boot.ID)) {
			return nil
		}
		s.tellOf(
			ctx,
			x.boot,
			"what the node has swapped out is not here any more: the server's machine was restarted, or the file "+
				"removed",
			"programs that it belonged to get a bus error instead of wrong memory, and fresh swap space is "+
				"attached; start them again, or reboot the node",
		)
		return api.NewError(api.NotFound, "node "+node+": "+volume.ErrLost.Error(), "it gets fresh swap space")
	}
	g, err := s.settingsOf(ctx, node)
	if err != nil {
		return err
	}
	w := g.SwapSpace()
	if w.Kind != fleet.SwapVolume {
		return api.NewError(
			api.Conflict,
			"node "+node+" has no swap space on a volume",
			"reboot it: its settings changed since it booted",
		)
	}
	x.want.Size = w.Size
	return nil
}

// attachSwap serves the swap space of a boot until the connection ends.
func (s *Service) attachSwap(ctx context.Context, x ticket, c net.Conn) {
	s.log.Info("swap space attached", "node", x.boot.Node, "used", x.used)
	err := s.swaps.Serve(ctx, x.boot.Node, string(x.boot.ID), x.want.Size, x.used, c)
	s.log.Info("swap space detached", "node", x.boot.Node, "err", err)
	if err == nil || errors.Is(err, volume.ErrTaken) || errors.Is(err, volume.ErrLost) || ctx.Err() != nil {
		return
	}
	s.tellOf(
		ctx,
		x.boot,
		"the node's swap space: "+err.Error(),
		"is qemu-system-common installed on the server, and is there room?",
	)
}

// PruneSwap removes swap space of superseded boots and of deleted nodes.
func (s *Service) PruneSwap(ctx context.Context) error {
	return s.registry.View(ctx, func(tx *registry.Tx) error {
		latest, err := tx.LatestBoots()
		if err != nil {
			return err
		}
		return s.swaps.Prune(func(node, boot string) bool { return string(latest[node].ID) == boot })
	})
}

// NodeDeleted removes the swap space of a node that was deleted.
func (s *Service) NodeDeleted(ctx context.Context, node string) {
	s.told.drop(node)
	if err := s.swaps.Remove(ctx, node); err != nil {
		s.log.Error("swap space of a deleted node cannot be removed", "node", node, "err", err)
	}
}
