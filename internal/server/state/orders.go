package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/lastseen"
	"pando/internal/nodestate"
	"pando/internal/registry"
	"pando/internal/trace"
	"pando/internal/volume"
)

// keeps says where a node keeps its state: by its settings, or for a deleted node by its record.
type keeps struct {
	node  string
	gone  bool // the node was deleted; its state on file systems and disks is on record
	k     fleet.Keeping
	st    fleet.State
	place string // "": the node keeps nothing
	on    bool   // the node runs
}

// statesOf returns where a node keeps its state. An unknown node keeps nothing, but there may be a volume with its
// name.
func (s *Service) statesOf(ctx context.Context, node string) (out keeps, err error) {
	out.node = node
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		n, err := tx.Node(node)
		if errors.Is(err, registry.ErrNotFound) {
			r, err := tx.StateRecord(node)
			out.gone = err == nil && !r.Deleted.IsZero()
			if errors.Is(err, registry.ErrNotFound) {
				err = nil
			}
			return err
		}
		if err != nil {
			return err
		}
		g, err := tx.Group(n.Group)
		if err != nil {
			return err
		}
		out.k = n.Settings.Of(g).Keeping
		out.place = nodestate.Place(out.k)
		if out.st, err = fleet.ParseState(out.k.StateText()); err != nil {
			return err
		}
		out.on, err = s.isOn(ctx, tx, n)
		return err
	})
	return out, err
}

// isOn reports whether a node runs or boots.
func (s *Service) isOn(ctx context.Context, tx *registry.Tx, n fleet.Node) (bool, error) {
	views, err := s.views.Views(ctx, tx, []fleet.Node{n})
	return err == nil && s.runs(views[0]), err
}

func (s *Service) runs(n api.Node) bool {
	return n.Boot != nil && n.Boot.State != trace.Down && s.now().Sub(n.Seen) <= lastseen.Within
}

// order records an order. An order about the whole state replaces earlier ones.
func (s *Service) order(ctx context.Context, of keeps, x fleet.StateOrder) error {
	x.ID, x.Place, x.Asked, x.Who = rand.Text(), of.place, s.now(), httpapi.CallerOf(ctx).String()
	return s.registry.Update(ctx, func(tx *registry.Tx) error { return putOrder(tx, of, x) })
}

func putOrder(tx *registry.Tx, of keeps, x fleet.StateOrder) error {
	r, err := keptIn(tx, of.node, of.k)
	if err != nil {
		return err
	}
	if len(x.Paths) == 0 {
		r.Orders = sendsOf(r)
	}
	return addOrder(tx, r, x)
}

// sendsOf returns the orders to send state to other nodes. They stay when the node's own state is replaced, because the
// other nodes wait for it.
func sendsOf(r fleet.StateRecord) []fleet.StateOrder {
	return slices.DeleteFunc(r.Orders, func(o fleet.StateOrder) bool { return o.Kind != fleet.SendState })
}

// addOrder records an order, or returns an error if the node has maxOrders of them.
func addOrder(tx *registry.Tx, r fleet.StateRecord, x fleet.StateOrder) error {
	if len(r.Orders) >= maxOrders {
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("there are %d orders about the state of %s already", len(r.Orders), r.Node),
			"reboot it, or withdraw them: pando node state cancel "+r.Node,
		)
	}
	r.Orders = append(r.Orders, x)
	return tx.PutStateRecord(r)
}

// voidOrders removes the orders about a state that was replaced.
func (s *Service) voidOrders(ctx context.Context, node string) error {
	return s.registry.Update(ctx, func(tx *registry.Tx) error {
		r, err := tx.StateRecord(node)
		if errors.Is(err, registry.ErrNotFound) || err == nil && len(r.Orders) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		r.Orders = sendsOf(r)
		return tx.PutStateRecord(r)
	})
}

// maxOrders is the most orders that a node can have: one boot does all of them.
const maxOrders = 16

// orderReset makes the next boot of a node reset all its kept state, or the given paths.
func (s *Service) orderReset(ctx context.Context, of keeps, req api.StateChange) error {
	for _, p := range req.Paths {
		if !slices.ContainsFunc(of.k.Kept(), func(k fleet.Kept) bool { return k.Path == p }) &&
			!s.keptBefore(ctx, of, p) {
			return httpapi.BadRequest(
				fmt.Sprintf("node %s does not keep %s", of.node, p),
				"`pando node state list "+of.node+"` shows what it keeps; below a kept directory remove files on "+
					"the node",
			)
		}
	}
	return s.order(ctx, of, fleet.StateOrder{Kind: fleet.ResetState, Paths: req.Paths})
}

// keptBefore reports whether a node still keeps a path that its settings do not name any more.
func (s *Service) keptBefore(ctx context.Context, of keeps, path string) (is bool) {
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		r, err := tx.StateRecord(of.node)
		if p := r.In(of.place); err == nil && p != nil {
			is = slices.ContainsFunc(p.Paths, func(k fleet.KeptPath) bool { return k.Path == path })
		}
		return err
	})
	return err == nil && is
}

// orderCopy makes the next boot of a node replace its state by a copy of another node's. It is copied directly if both
// nodes keep their state in the same place, else through the server.
func (s *Service) orderCopy(ctx context.Context, of keeps, req api.StateChange) error {
	if req.From == of.node {
		return httpapi.BadRequest("node "+of.node+" has its own state already", "")
	}
	from, err := s.statesOf(ctx, req.From)
	if err != nil {
		return err
	}
	var r fleet.StateRecord
	err = s.registry.View(ctx, func(tx *registry.Tx) (err error) {
		r, err = tx.StateRecord(req.From)
		return err
	})
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	through, place := from.place != "" && (!of.st.Shared() || from.place != of.place), of.place
	if through {
		place = from.place
	}
	p := r.In(place)
	switch known := p != nil && !p.Told.IsZero(); {
	case through && known:
		return s.orderThrough(ctx, of, from)
	case through:
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("%s has not reported yet that it keeps anything on its %s", from.node, from.st.Kind),
			"it needs a boot with its settings; `pando node state list` shows what there is",
		)
	case !known || !of.st.Shared():
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("%s keeps nothing where node %s keeps its state, %s", req.From, of.node, of.k.StateText()),
			keepsNothingHint(of, from),
		)
	case from.on && !req.Force:
		return api.NewError(
			api.Conflict,
			fmt.Sprintf("%s is on: the copy would have only part of what it writes meanwhile", req.From),
			"switch it off until "+of.node+" has booted; --force copies it as it is",
		)
	}
	return s.order(ctx, of, fleet.StateOrder{Kind: fleet.CopyState, From: req.From, FromDir: r.Dir, Force: req.Force})
}

// keepsNothingHint says what is missing for a copy.
func keepsNothingHint(of, from keeps) string {
	switch {
	case from.gone && !of.st.Shared():
		return "a deleted node sends nothing: what it kept on a disk is with its machine, and what it kept " +
			"elsewhere is copied by nodes that keep their state there"
	case !of.st.Shared():
		return "it needs --state-on and --persist, and a boot with them; `pando node state list` shows what there is"
	}
	return "a node copies what it finds beside its own state: both need the same --state-on, and " + from.node +
		" a boot with it"
}

// removeState removes the state of a deleted node. Another node that keeps its state in the same place removes the
// files at its next boot.
func (s *Service) removeState(ctx context.Context, of keeps, req api.StateChange) error {
	if len(req.Paths) > 0 {
		return httpapi.BadRequest("the state of a deleted node is removed as a whole", "leave out --path")
	}
	if err := s.volumes.Reset(ctx, of.node); err != nil && !errors.Is(err, volume.ErrNone) {
		return err
	}
	return s.registry.Update(ctx, func(tx *registry.Tx) error {
		r, err := tx.StateRecord(of.node)
		if err != nil {
			return err
		}
		r.Orders = nil
		for _, p := range r.Places {
			if p.Shared() && r.Dir != "" && !req.Forget {
				r.Orders = append(
					r.Orders,
					fleet.StateOrder{
						ID:      rand.Text(),
						Kind:    fleet.RemoveState,
						Place:   p.Place,
						From:    of.node,
						FromDir: r.Dir,
						Asked:   s.now(),
						Who:     httpapi.CallerOf(ctx).String(),
					},
				)
			}
		}
		if len(r.Orders) == 0 { // nothing is left to do: local disks are out of reach, and the volume is removed
			return tx.ForgetState(of.node)
		}
		return tx.PutStateRecord(r)
	})
}
