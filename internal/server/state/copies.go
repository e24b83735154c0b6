package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/nodeconfig"
	"pando/internal/registry"
)

// SpoolLife is how long the spool keeps state that no node has fetched.
const SpoolLife = 14 * 24 * time.Hour

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
		o, err = ordered(tx, n.Name, id, kind)
		return err
	})
	return b, o, err
}

// withheld returns why a boot may not take part in copies between nodes, "" if it may.
func withheld(b registry.Boot, n fleet.Node, g fleet.Group) string {
	return nodeconfig.Node{Node: n, Group: g, Boot: b}.Claim().Withheld()
}

// ordered returns the order of a node with an id and a kind.
func ordered(tx *registry.Tx, node, id string, kind fleet.StateOrderKind) (o fleet.StateOrder, err error) {
	r, err := tx.StateRecord(node)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return o, err
	}
	i := slices.IndexFunc(r.Orders, func(o fleet.StateOrder) bool { return o.ID == id && o.Kind == kind })
	if i < 0 {
		return o, api.NewError(
			api.NotFound,
			"there is no such order for node "+node,
			"the order was withdrawn or carried out already",
		)
	}
	return r.Orders[i], nil
}

// TakeState answers POST /v1/node/state/send: a node sends all its kept state as a tar archive, for the node that its
// order names.
func (s *Service) TakeState(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("order")
	b, o, err := s.courier(r, fleet.BootID(r.URL.Query().Get("boot")), id, fleet.SendState)
	if err != nil {
		return err
	}
	// Without a time limit: TCP notices a node that is gone, and a node may read for long before it sends more.
	bytes, digest, err := s.Spool.take(id, r.Body)
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
	return s.tellEnded(ctx, b, []fleet.StateResult{result})
}

// sentState records that the server has received the state of a node.
func sentState(tx *registry.Tx, node string, x fleet.StateResult, bytes int64, digest string) error {
	if _, err := ordered(tx, node, x.ID, fleet.SendState); err != nil {
		return err
	}
	r, err := tx.StateRecord(node)
	if err != nil {
		return err
	}
	r.Orders, r.Last = slices.DeleteFunc(r.Orders, func(o fleet.StateOrder) bool { return o.ID == x.ID }), &x
	if err := tx.PutStateRecord(r); err != nil {
		return err
	}
	all, err := tx.StateRecords()
	for _, r := range all {
		for i := range r.Orders {
			if o := &r.Orders[i]; o.ID == x.ID && o.Through {
				o.Sent, o.Bytes, o.Digest = x.At, bytes, digest
				return tx.PutStateRecord(r)
			}
		}
	}
	if err != nil {
		return err
	}
	return api.NewError(api.NotFound, "nobody waits for the state of "+node+" any more", "")
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
	if !o.Through || o.Waits() {
		return api.NewError(api.NotFound, o.From+" has not sent its state", "")
	}
	f, err := s.Spool.open(o.ID)
	if err != nil {
		return api.NewError(
			api.NotFound,
			"the server has lost what "+o.From+" sent: "+err.Error(),
			"order the copy again",
		)
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Length", strconv.FormatInt(o.Bytes, 10))
	_, _ = io.CopyN(w, f, o.Bytes) // the node notices a short answer
	return nil
}

// SettleCopies ends copies that have become impossible, and removes files of the spool that no order needs. It is safe
// to call at any time.
func (s *Service) SettleCopies(ctx context.Context) error {
	ctx = registry.Whole(ctx)
	err := s.registry.Update(ctx, func(tx *registry.Tx) error {
		all, err := tx.StateRecords()
		if err != nil {
			return err
		}
		for _, r := range unsettled(all, s.now()) {
			if err := tx.PutStateRecord(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = s.Spool.sweep(ctx, s.spoolWanted)
	}
	if err != nil {
		return fmt.Errorf("copies of node state through the server: %w", err)
	}
	return nil
}

// spoolWanted returns the ids of the orders that may have a file in the spool.
func (s *Service) spoolWanted(ctx context.Context) (map[string]bool, error) {
	want := map[string]bool{}
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		all, err := tx.StateRecords()
		for _, r := range all {
			for _, x := range r.Orders {
				want[x.ID] = want[x.ID] || x.Through
			}
		}
		return err
	})
	return want, err
}

// unsettled returns the records that lose orders which have become impossible: the other node's order is gone, or the
// state was not fetched in time.
func unsettled(all map[string]fleet.StateRecord, now time.Time) (out []fleet.StateRecord) {
	sends, copies := map[string]bool{}, map[string]bool{}
	for _, r := range all {
		for _, x := range r.Orders {
			sends[x.ID] = sends[x.ID] || x.Kind == fleet.SendState
			copies[x.ID] = copies[x.ID] || x.Waits()
		}
	}
	for _, r := range all {
		n := len(r.Orders)
		r.Orders = slices.DeleteFunc(slices.Clone(r.Orders), func(x fleet.StateOrder) bool {
			why := ""
			switch {
			case x.Kind == fleet.SendState:
				return !copies[x.ID]
			case x.Waits() && !sends[x.ID]:
				why = x.From + " does not send its state any more"
			case x.Through && !x.Waits() && now.Sub(x.Sent) > SpoolLife:
				why = fmt.Sprintf("it was not fetched within %d days", int(SpoolLife.Hours()/24))
			default:
				return false
			}
			r.Last = &fleet.StateResult{StateOrder: x, At: now, Error: why}
			return true
		})
		if len(r.Orders) != n {
			out = append(out, r)
		}
	}
	return out
}

// failCopies ends the copies whose sending node could not send its state, with that node's reason.
func failCopies(tx *registry.Tx, ended []fleet.StateResult) error {
	failed := map[string]fleet.StateResult{}
	for _, x := range ended {
		if x.Kind == fleet.SendState && x.Error != "" {
			failed[x.ID] = x
		}
	}
	if len(failed) == 0 {
		return nil
	}
	all, err := tx.StateRecords()
	for _, r := range all {
		n := len(r.Orders)
		r.Orders = slices.DeleteFunc(r.Orders, func(o fleet.StateOrder) bool {
			x, ok := failed[o.ID]
			if ok = ok && o.Waits(); ok {
				r.Last = &fleet.StateResult{StateOrder: o, At: x.At, Error: o.From + " could not send it: " + x.Error}
			}
			return ok
		})
		if len(r.Orders) != n {
			err = errors.Join(err, tx.PutStateRecord(r))
		}
	}
	return err
}
