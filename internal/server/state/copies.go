package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// SpoolLife is how long the spool keeps state that no node has fetched.
const SpoolLife = 14 * 24 * time.Hour

// orderThrough orders a copy through the server: node `from` sends its state at its next boot, before anything writes
// to it, and node `of` fetches it at its first boot after that.
func (s *Service) orderThrough(ctx context.Context, of, from keeps) error {
	x := fleet.StateOrder{ID: rand.Text(), Asked: s.now(), Who: httpapi.CallerOf(ctx).String()}
	send, take := x, x
	send.Kind, send.Place, send.To = fleet.SendState, from.place, of.node
	take.Kind, take.Place, take.From, take.Through = fleet.CopyState, of.place, from.node, true
	return s.registry.Update(ctx, func(tx *registry.Tx) error {
		r, err := tx.StateRecord(from.node)
		if err == nil {
			err = addOrder(tx, r, send)
		}
		if err != nil {
			return err
		}
		return putOrder(tx, of, take)
	})
}

// courier returns the boot that makes a request, and its node's order with an id and a kind. A boot that gets no
// secrets has not proved which node it is, so it may neither send nor fetch state.
func (s *Service) courier(
	r *http.Request,
	boot fleet.BootID,
	id string,
	kind fleet.StateOrderKind,
) (b registry.Boot, o fleet.StateOrder, err error) {
	if httpapi.Credential(r, "Bearer") == "" {
		return b, o, api.NewError(api.Unauthorized, "the boot has no session yet", "")
	}
	if b, err = s.auth.Reporter(r, boot); err != nil {
		return b, o, err
	}
	n, g, err := s.members.Member(r.Context(), b.MAC)
	if err != nil {
		return b, o, err
	}
	if why := withheld(b, n, g); why != "" {
		return b, o, api.NewError(
			api.Forbidden,
			"node state is kept from this boot: "+why,
			"pando node approve "+n.Name,
		)
	}
	b.Node = n.Name // the node may have been renamed since the boot
	err = s.registry.View(r.Context(), func(tx *registry.Tx) error {
		r, err := tx.StateRecord(n.Name)
		i := slices.IndexFunc(r.Orders, func(x fleet.StateOrder) bool { return x.ID == id && x.Kind == kind })
		switch {
		case i >= 0:
			o = r.Orders[i]
		case err == nil || errors.Is(err, registry.ErrNotFound):
			err = withdrawn(n.Name)
		}
		return err
	})
	return b, o, err
}

func withdrawn(node string) error {
	return api.NewError(
		api.NotFound,
		"there is no such order for node "+node,
		"the order was withdrawn or carried out already",
	)
}

// withheld returns why a boot may not take part in copies between nodes, "" if it may.
func withheld(b registry.Boot, n fleet.Node, g fleet.Group) string {
	return nodeconfig.Node{Node: n, Group: g, Boot: b}.Claim().Withheld()
}

// TakeState answers POST /v1/node/state/send: a node sends all its kept state as a tar archive, for the node that its
// order names.
func (s *Service) TakeState(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	b, o, err := s.courier(r, fleet.BootID(q.Get("boot")), q.Get("order"), fleet.SendState)
	if err != nil {
		return err
	}
	// Without a time limit: TCP notices a node that is gone, and a node may read for long before it sends more.
	bytes, digest, err := s.Spool.take(o.ID, r.Body)
	if err != nil {
		s.log.Warn("node state cannot be received", "node", b.Node, "for", o.To, "err", err)
		return err
	}
	ctx := context.WithoutCancel(r.Context())
	result := fleet.StateResult{StateOrder: o, At: s.now()}
	err = s.registry.Update(ctx, func(tx *registry.Tx) error { return sentState(tx, b.Node, result, bytes, digest) })
	if err != nil {
		return errors.Join(err, s.SettleCopies(ctx))
	}
	s.log.Info("node state received", "node", b.Node, "for", o.To, "bytes", bytes)
	w.WriteHeader(http.StatusNoContent)
	return s.tellEnded(ctx, b, result)
}

// sentState records that the server has received the state of a node, unless one of the two orders was withdrawn
// meanwhile.
func sentState(tx *registry.Tx, node string, x fleet.StateResult, bytes int64, digest string) error {
	all, err := tx.StateRecords()
	halves := 0
	for _, r := range all {
		i := slices.IndexFunc(r.Orders, func(o fleet.StateOrder) bool { return o.ID == x.ID })
		if i < 0 {
			continue
		}
		if o := &r.Orders[i]; o.Kind == fleet.SendState {
			r.Orders, r.Last = slices.Delete(r.Orders, i, i+1), &x
		} else {
			o.Sent, o.Bytes, o.Digest = x.At, bytes, digest
		}
		halves++
		err = errors.Join(err, tx.PutStateRecord(r))
	}
	if err == nil && halves < 2 {
		err = withdrawn(node)
	}
	return err
}

// GiveState answers POST /v1/node/state/fetch: a node fetches the state that another node sent for it.
func (s *Service) GiveState(w http.ResponseWriter, r *http.Request) error {
	req, err := httpapi.DecodeReport[api.StateFetch](w, r)
	if err != nil {
		return err
	}
	_, o, err := s.courier(r, req.Boot, req.Order, fleet.CopyState)
	if err != nil {
		return err
	}
	f, err := os.Open(s.Spool.path(o.ID))
	if err != nil {
		return api.NewError(
			api.NotFound,
			"the server does not have the state of "+o.From+": "+err.Error(),
			"order the copy again",
		)
	}
	defer f.Close()
	w.Header().Set("Content-Length", strconv.FormatInt(o.Bytes, 10))
	_, _ = io.CopyN(w, f, o.Bytes) // the node notices a short answer
	return nil
}

// SettleCopies ends copies that have become impossible, and removes files of the spool that no order needs. It is safe
// to call at any time.
func (s *Service) SettleCopies(ctx context.Context) error { return s.settle(ctx, nil) }

// settle is SettleCopies with the reasons of nodes that could not send their state, by order.
func (s *Service) settle(ctx context.Context, failed map[string]string) error {
	ctx = registry.Whole(ctx)
	var ended []endedCopy
	err := s.Spool.sweep(func() (needed map[string]bool, err error) {
		err = s.registry.Update(ctx, func(tx *registry.Tx) (err error) {
			ended, needed, err = endCopies(tx, s.now(), failed)
			return err
		})
		return needed, err
	})
	for _, x := range ended {
		err = errors.Join(err, s.tellEnded(ctx, x.boot, x.result))
	}
	if err != nil {
		return fmt.Errorf("copies of node state through the server: %w", err)
	}
	return nil
}

// endedCopy is a copy that has become impossible, with the latest boot of the node that does not get it.
type endedCopy struct {
	boot   registry.Boot
	result fleet.StateResult
}

// endCopies removes orders that have become impossible: the other node's order is gone, or the state was not fetched in
// time. needed has the ids of the orders that may have a file in the spool.
func endCopies(
	tx *registry.Tx,
	now time.Time,
	failed map[string]string,
) (ended []endedCopy, needed map[string]bool, err error) {
	all, err := tx.StateRecords()
	halves := map[string]int{} // orders about state that is not sent yet, two for each copy
	for _, r := range all {
		for _, x := range r.Orders {
			if x.Kind == fleet.SendState || x.Waits() {
				halves[x.ID]++
			}
		}
	}
	needed = map[string]bool{}
	for _, r := range all {
		n, last := len(r.Orders), r.Last
		r.Orders = slices.DeleteFunc(r.Orders, func(x fleet.StateOrder) bool {
			why := ""
			switch alone := halves[x.ID] < 2; {
			case x.Kind == fleet.SendState:
				return alone
			case x.Waits() && alone && failed[x.ID] != "":
				why = x.From + " could not send it: " + failed[x.ID]
			case x.Waits() && alone:
				why = x.From + " does not send its state any more"
			case x.Through && !x.Waits() && now.Sub(x.Sent) > SpoolLife:
				why = fmt.Sprintf("it was not fetched within %d days", int(SpoolLife.Hours()/24))
			default:
				needed[x.ID] = x.Through
				return false
			}
			r.Last = &fleet.StateResult{StateOrder: x, At: now, Error: why}
			return true
		})
		if len(r.Orders) != n {
			err = errors.Join(err, tx.PutStateRecord(r))
		}
		if r.Last != last {
			b, e := fleetview.LatestBoot(tx, fleet.Node{Name: r.Node})
			b.Node = r.Node
			ended, err = append(ended, endedCopy{b, *r.Last}), errors.Join(err, e)
		}
	}
	return ended, needed, err
}
