package boots

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"pando/internal/bootlog"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// queued tells a machine its place, or that its request is held open. Only the first answer with a place becomes a
// timeline event.
func (s *scripts) queued(
	ctx context.Context,
	c *bootlog.Entry,
	in netboot.ScriptInput,
	answer netboot.Admission,
	from netip.Addr,
) (netboot.ScriptInput, error) {
	in.Action, in.Node, in.Admission = netboot.Queued, c.Boot.Node, answer
	in.Renew = !s.addresses.proven(c, c.MAC, from, ExchangeTime/2)
	waits := c.Queued.After(c.Boot.Scripted) // in this wait, not in an earlier one
	if answer.Hold == 0 {
		c.Queued = s.now()
	}
	if waits && c.Boot.Addr == from {
		return in, nil
	}
	if err := s.boots.Save(ctx, c, func(b *registry.Boot) { b.Node, b.Addr = c.Boot.Node, from }); err != nil {
		return in, err
	}
	if c.DHCP == trace.Begin {
		s.boots.DHCPDone(c, from)
	}
	if !waits && answer.Hold == 0 {
		s.boots.Record(
			ctx,
			c,
			trace.Event{Stage: trace.Script, Kind: trace.Begin},
			trace.Event{Stage: trace.Script, Kind: trace.Info,
				Message: fmt.Sprintf(
					"waits for its turn: place %d, about %s",
					answer.Place,
					answer.Expect.Round(time.Second),
				)},
		)
	}
	return in, nil
}
