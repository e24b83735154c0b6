package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pando/internal/fleet"
	"pando/internal/fleetview"
	"pando/internal/httpapi"
	"pando/internal/nodestate"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Files returns the files that put node state in place in a boot, with the orders that the boot carries out first.
func (s *Service) Files(ctx context.Context, b registry.Boot, n fleet.Node, g fleet.Group) ([]fleet.File, error) {
	in := nodestate.Input{Node: n.Name, Keeping: g.Keeping}
	place := nodestate.Place(g.Keeping)
	if place == "" {
		return nodestate.Files(in), nil
	}
	r, gone, err := s.stateRecord(ctx, n.Name, g.Keeping, place)
	if err != nil {
		return nil, err
	}
	in.Dir = r.Dir
	for _, o := range r.Orders {
		if o.Place == place && !s.waitsFor(ctx, b, n, g, o) {
			in.Orders = append(in.Orders, o)
		}
	}
	for _, r := range gone {
		for _, o := range r.Orders {
			if o.Place == place {
				in.Orders = append(in.Orders, o)
			}
		}
	}
	return nodestate.Files(in), nil
}

// stateRecord returns the record of a node's state, and those of deleted nodes. It records the place of the node's
// state before the node writes there.
func (s *Service) stateRecord(
	ctx context.Context,
	node string,
	k fleet.Keeping,
	place string,
) (r fleet.StateRecord, gone []fleet.StateRecord, err error) {
	err = s.registry.View(ctx, func(tx *registry.Tx) error {
		var e error
		r, err = tx.StateRecord(node)
		gone, e = tx.DeletedStates()
		if errors.Is(err, registry.ErrNotFound) {
			err = nil
		}
		return errors.Join(err, e)
	})
	if err != nil || r.In(place) != nil {
		return r, gone, err
	}
	err = s.registry.UpdateReserved(ctx, func(tx *registry.Tx) (err error) {
		r, err = keptIn(tx, node, k)
		return err
	})
	return r, gone, err
}

// keptIn records where a node keeps its state.
func keptIn(tx *registry.Tx, node string, k fleet.Keeping) (fleet.StateRecord, error) {
	st, err := fleet.ParseState(k.StateText())
	if err != nil {
		return fleet.StateRecord{}, err
	}
	var r fleet.StateRecord
	if st.Shared() {
		r, err = tx.GiveStateDir(node)
	} else if r, err = tx.StateRecord(node); errors.Is(err, registry.ErrNotFound) {
		r, err = fleet.StateRecord{Node: node}, nil
	}
	place := nodestate.Place(k)
	if err != nil || r.In(place) != nil {
		return r, err
	}
	r.Places = append(r.Places, fleet.StatePlace{Place: place, On: k.StateText()})
	return r, tx.PutStateRecord(r)
}

// RecordPlace records where a node keeps its state. It is for nodes that last booted with a release that did not record
// it.
func (*Service) RecordPlace(tx *registry.Tx, n fleet.Node) error {
	g, err := tx.Group(n.Group)
	if err != nil {
		return err
	}
	k := n.Settings.Of(g).Keeping
	if nodestate.Place(k) == "" {
		return nil
	}
	b, err := fleetview.LatestBoot(tx, n)
	if err != nil || b.Session.IsZero() {
		return err // the node never registered, so it has kept nothing
	}
	_, err = keptIn(tx, n.Name, k)
	return err
}

// waitsFor reports whether an order must wait for a later boot, and writes the reason on the node's timeline. A copy
// waits while the other node runs and may write to its state, or has not sent it yet.
func (s *Service) waitsFor(ctx context.Context, b registry.Boot, n fleet.Node, g fleet.Group, o fleet.StateOrder) bool {
	message, hint := "", ""
	switch why := withheld(b, n, g); {
	case (o.Through || o.Kind == fleet.SendState) && why != "":
		message, hint = why, "pando node approve "+n.Name+", then reboot it; with `,wait` behind the policy "+
			"a boot waits until it is approved"
	case o.Waits():
		message, hint = o.From+" has not sent its state",
			"it does when it boots: pando node reboot "+o.From+"; then reboot this node"
	case o.Kind == fleet.CopyState && !o.Through && !o.Force && s.mayRun(ctx, o.From):
		message, hint = o.From+" is on", "switch it off, then reboot this node; or order it again with --force"
	default:
		return false
	}
	_, err := s.registry.Append(
		ctx,
		trace.Event{Time: s.now(), Boot: b.ID, Node: n.Name, MAC: b.MAC, Stage: stateStage, Kind: trace.Info,
			Message: fmt.Sprintf("the %s waits: %s", o, message), Hint: hint},
	)
	if err != nil {
		s.log.Error("reason for a waiting copy cannot be recorded", "node", n.Name, "from", o.From, "err", err)
	}
	return true
}

// mayRun reports whether a node runs; also true if that cannot be found out. A deleted node does not run.
func (s *Service) mayRun(ctx context.Context, node string) (on bool) {
	err := s.registry.View(ctx, func(tx *registry.Tx) error {
		n, err := tx.Node(node)
		if err == nil {
			on, err = s.isOn(ctx, tx, n)
		}
		return err
	})
	return err == nil && on || err != nil && !errors.Is(err, registry.ErrNotFound)
}

// stateStage is the stage that a node reports when its state is in place.
const stateStage = trace.Stage("state")

// told holds the last report of each node about its state. Nodes repeat it when they change to another server.
type told struct {
	mu sync.Mutex
	of map[fleet.MAC]string
}

// news reports whether a report differs from the last one; report records it as the last.
func (t *told) news(b registry.Boot, text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of[b.MAC] != string(b.ID)+text
}

func (t *told) report(b registry.Boot, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[fleet.MAC]string{}
	}
	t.of[b.MAC] = string(b.ID) + text
}

// KeepReport records what a node reports about its state, and ends the orders that the node has carried out.
func (s *Service) KeepReport(ctx context.Context, b registry.Boot, text string) error {
	if text == "" || b.Node == "" || !s.told.news(b, text) {
		return nil
	}
	report := readStateReport(text, s.now())
	report.place.Boot = b.ID
	var ended []fleet.StateResult
	err := s.registry.UpdateReserved(ctx, func(tx *registry.Tx) error {
		ended = nil
		r, err := tx.StateRecord(b.Node)
		if errors.Is(err, registry.ErrNotFound) {
			r, err = fleet.StateRecord{Node: b.Node}, nil
		}
		if err != nil {
			return err
		}
		if report.place.Place != "" {
			if p := r.In(report.place.Place); p != nil {
				*p = report.place.over(*p)
			} else {
				r.Places = append(r.Places, report.place.StatePlace)
			}
		}
		r.Orders = slices.DeleteFunc(r.Orders, func(o fleet.StateOrder) bool {
			end, ok := report.ended[o.ID]
			if ok {
				ended = append(ended, fleet.StateResult{StateOrder: o, At: s.now(), Error: end})
				r.Last = &ended[len(ended)-1]
			}
			return ok
		})
		gone, err := removedStates(tx, report.ended, s.now())
		ended = append(ended, gone...)
		return errors.Join(err, tx.PutStateRecord(r))
	})
	if err != nil {
		return fmt.Errorf("record the state report of %s: %w", b.Node, err)
	}
	s.told.report(b, text)
	if slices.ContainsFunc(ended, func(x fleet.StateResult) bool { return x.Through || x.Kind == fleet.SendState }) {
		err = s.settle(ctx, report.ended)
	}
	return errors.Join(err, s.tellEnded(ctx, b, ended...))
}

// removedStates deletes the records of deleted nodes whose state was removed everywhere.
func removedStates(tx *registry.Tx, done map[string]string, at time.Time) (ended []fleet.StateResult, err error) {
	if len(done) == 0 {
		return nil, nil
	}
	all, err := tx.DeletedStates()
	for _, r := range all {
		left := len(r.Orders)
		r.Orders = slices.DeleteFunc(r.Orders, func(o fleet.StateOrder) bool {
			_, ok := done[o.ID]
			if ok {
				ended = append(ended, fleet.StateResult{StateOrder: o, At: at})
				r.Places = slices.DeleteFunc(r.Places, func(p fleet.StatePlace) bool { return p.Place == o.Place })
			}
			return ok
		})
		switch {
		case len(r.Orders) == left:
		case len(r.Orders) == 0:
			err = errors.Join(err, tx.ForgetState(r.Node))
		default:
			err = errors.Join(err, tx.PutStateRecord(r))
		}
	}
	return ended, err
}

func (s *Service) tellEnded(ctx context.Context, b registry.Boot, ended ...fleet.StateResult) error {
	for _, x := range ended {
		e := trace.Event{
			Time:    s.now(),
			Boot:    b.ID,
			Node:    b.Node,
			MAC:     b.MAC,
			Stage:   stateStage,
			Kind:    trace.Info,
			Message: x.Done(),
		}
		if x.Error != "" {
			e.Hint = "the state is what it was before; `pando node state list` shows what there is"
		}
		if _, err := s.registry.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// stateReport is a node's report about its state.
type stateReport struct {
	place statePlace
	ended map[string]string // ended orders by id, with the reason of a failure; "" for success
}

type statePlace struct{ fleet.StatePlace }

// over returns p, with sizes taken from the earlier report was for paths without one.
func (p statePlace) over(was fleet.StatePlace) fleet.StatePlace {
	for i, x := range p.Paths {
		j := slices.IndexFunc(
			was.Paths,
			func(o fleet.KeptPath) bool { return o.Path == x.Path && o.Since.Equal(x.Since) },
		)
		if x.Bytes < 0 && j >= 0 {
			p.Paths[i].Bytes = was.Paths[j].Bytes
		}
	}
	return p.StatePlace
}

// readStateReport parses the lines of a node's script. Lines that are not valid are skipped.
func readStateReport(text string, now time.Time) stateReport {
	r := stateReport{ended: map[string]string{}}
	r.place.Told = now
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		for i := range f {
			f[i] = httpapi.Clip(f[i], httpapi.MaxMessage)
		}
		switch {
		case f[0] == "on" && len(f) == 3:
			r.place.Place, r.place.On = f[1], f[2]
		case f[0] == "done" && len(f) == 2:
			r.ended[f[1]] = ""
		case f[0] == "failed" && len(f) == 3:
			r.ended[f[1]] = f[2]
		case f[0] == "kept" && len(f) == 4 && len(r.place.Paths) < 4*64:
			p := fleet.KeptPath{Path: f[1], Bytes: -1}
			if at, err := strconv.ParseInt(f[2], 10, 64); err == nil && at > 0 {
				p.Since = time.Unix(at, 0).UTC()
			}
			if n, err := strconv.ParseInt(f[3], 10, 64); err == nil && n >= 0 {
				p.Bytes = n
			}
			r.place.Paths = append(r.place.Paths, p)
		}
	}
	return r
}
