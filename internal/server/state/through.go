package state

import (
	"context"
	"crypto/rand"
	"fmt"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/registry"
	"pando/internal/trace"
)

// orderThrough orders a copy through the server: node `from` sends its state at its next boot, before anything writes
// to it, and node `of` takes it over at a later boot. With force, a node that is on sends its state at once.
func (s *Service) orderThrough(ctx context.Context, of, from keeps, has fleet.StateRecord, force bool) error {
	if p := has.In(from.place); p == nil || p.Told.IsZero() {
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("%s has not reported yet that it keeps anything on its %s", from.node, from.st.Kind),
			"it needs a boot with its settings; `pando node state list` shows what there is",
		)
	}
	send := fleet.StateOrder{
		ID:    rand.Text(),
		Kind:  fleet.SendState,
		Place: from.place,
		To:    of.node,
		Force: force,
		Asked: s.now(),
		Who:   httpapi.CallerOf(ctx).String(),
	}
	take := send
	take.Kind, take.Place, take.To, take.From, take.Through = fleet.CopyState, of.place, "", from.node, true
	err := s.registry.Update(ctx, func(tx *registry.Tx) error {
		r, err := tx.StateRecord(from.node)
		if err != nil {
			return err
		}
		if err := addOrder(tx, r, send); err != nil {
			return err
		}
		if r, err = keptIn(tx, of.node, of.k); err != nil {
			return err
		}
		r.Orders = sendsOf(r)
		return addOrder(tx, r, take)
	})
	if err == nil && force && from.on {
		go s.sendNow(context.WithoutCancel(ctx), from.node, send)
	}
	return err
}

// sendNow makes a running node send its state. If that fails, the node's timeline says why, and the next boot sends it.
func (s *Service) sendNow(ctx context.Context, node string, send fleet.StateOrder) {
	var b registry.Boot
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		n, err := tx.Node(node)
		if err == nil {
			b, err = fleetview.LatestBoot(tx, n)
		}
		return err
	})
	var rep api.NodeCommandReport
	if err == nil {
		rep, err = s.commands.Do(ctx, b.ID, api.NodeCommand{ID: send.ID, Kind: api.SendState})
	}
	if err == nil && rep.Error == "" {
		return
	}
	why := rep.Error
	if err != nil {
		why = err.Error()
	}
	e := trace.Event{Time: s.now(), Boot: b.ID, Node: node, MAC: b.MAC, Stage: stateStage, Kind: trace.Info,
		Message: fmt.Sprintf(
			"its state for %s is not sent at once: %s",
			send.To,
			why,
		), Hint: "its next boot sends it: pando node reboot " + node}
	if _, err := s.registry.Append(ctx, e); err != nil {
		s.log.Error("failure to send node state cannot be recorded", "node", node, "why", why, "err", err)
	}
}
