package registry

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"pando/internal/fleet"
)

// maxOverlay bounds the number of boots and leases that are only in memory.
const maxOverlay = 16384

// overlay has the boots and leases of known nodes that were written while the disk and its reserve were full. Reads
// apply it on top of the file. A published overlay is never changed; changes are made in a copy.
type overlay struct {
	boots  map[fleet.BootID]Boot
	leases map[netip.Addr]fleet.Lease
	ended  map[fleet.MAC]fleet.BootID // by MAC: the sessions of all boots but this one have ended
}

func (o *overlay) clone() *overlay {
	if o == nil {
		return &overlay{map[fleet.BootID]Boot{}, map[netip.Addr]fleet.Lease{}, map[fleet.MAC]fleet.BootID{}}
	}
	return &overlay{maps.Clone(o.boots), maps.Clone(o.leases), maps.Clone(o.ended)}
}

// memory holds the overlay.
type memory struct {
	mu  sync.Mutex // held by a change from before it is written until its result is known
	now atomic.Pointer[overlay]
}

// remember runs a change of a boot in memory.
func (r *Registry) remember(ctx context.Context, fn func(*Tx) error) error {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	o := r.memory.now.Load().clone()
	if len(o.boots)+len(o.leases) >= maxOverlay {
		return fmt.Errorf("%w, and too many boots and leases are only in memory", ErrFull)
	}
	tx, err := r.main.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read registry: %w", err)
	}
	defer tx.Rollback() // the transaction is read-only
	if err := fn(&Tx{ctx: ctx, tx: tx, over: o, change: o}); err != nil {
		return err
	}
	r.memory.now.Store(o)
	return nil
}

// update writes a change together with what is only in memory.
func (r *Registry) update(ctx context.Context, fn func(*Tx) error) error {
	if r.memory.now.Load() == nil {
		return r.main.write(ctx, func(tx *sql.Tx) error { return fn(&Tx{ctx: ctx, tx: tx}) })
	}
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	o := r.memory.now.Load()
	err := r.main.write(ctx, func(tx *sql.Tx) error {
		if o != nil {
			if err := o.write(&Tx{ctx: Whole(ctx), tx: tx}); err != nil {
				return fmt.Errorf("write boots and leases from memory: %w", err)
			}
		}
		return fn(&Tx{ctx: ctx, tx: tx})
	})
	if err == nil {
		r.memory.now.Store(nil)
	}
	return err
}

// write writes the overlay to the file.
func (o *overlay) write(t *Tx) error {
	for _, l := range o.leases {
		if !l.Bad {
			if err := t.DeleteLeasesOf(l.MAC, l.Addr); err != nil {
				return err
			}
		}
		if err := t.PutLease(l); err != nil {
			return err
		}
	}
	byStart := func(a, b Boot) int { return a.Started.Compare(b.Started) }
	for _, b := range slices.SortedFunc(maps.Values(o.boots), byStart) {
		err := t.PutBoot(b)
		if errors.Is(err, ErrNotFound) {
			err = t.CreateBoot(b)
		}
		if err != nil {
			return err
		}
	}
	for m, except := range o.ended {
		if err := t.EndSessions(m, except); err != nil {
			return err
		}
	}
	return nil
}

// boot returns a boot with the changes of the overlay.
func (o *overlay) boot(b Boot) Boot {
	if o == nil {
		return b
	}
	if over, ok := o.boots[b.ID]; ok {
		return over
	}
	if except, ok := o.ended[b.MAC]; ok && except != b.ID {
		b.Session = Hash{}
	}
	return b
}

// only returns the boots that exist only in the overlay and that the caller may see.
func (t *Tx) only(fits func(Boot) bool) (out []Boot) {
	if t.over == nil {
		return nil
	}
	for _, b := range t.over.boots {
		if !fits(b) {
			continue
		}
		if t.Limited() {
			if _, err := t.Node(b.Node); err != nil {
				continue
			}
		}
		out = append(out, b)
	}
	return out
}

// overlaid applies the overlay to a list of boots, newest first.
func (t *Tx) overlaid(list []Boot, f BootFilter) []Boot {
	if t.over == nil {
		return list
	}
	for i, b := range list {
		list[i] = t.over.boot(b)
	}
	for _, b := range t.only(func(b Boot) bool {
		return (f.Node == "" || b.Node == f.Node) && (f.MAC.IsZero() || b.MAC == f.MAC) && !b.Started.Before(f.Since)
	}) {
		if !slices.ContainsFunc(list, func(x Boot) bool { return x.ID == b.ID }) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b Boot) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID))
	})
	if f.Limit > 0 && len(list) > f.Limit {
		list = list[:f.Limit]
	}
	return list
}

// endSessions ends the sessions of a MAC's other boots.
func (o *overlay) endSessions(m fleet.MAC, except fleet.BootID) {
	o.ended[m] = except
	for id, b := range o.boots {
		if b.MAC == m && id != except {
			b.Session = Hash{}
			o.boots[id] = b
		}
	}
}

// putLease records a lease of a known node in the overlay.
func (t *Tx) putLease(l fleet.Lease) error {
	is, err := t.KnownMAC(l.MAC)
	if err != nil {
		return err
	}
	if !is {
		return fmt.Errorf("%w: no address for a machine that is not a known node", ErrFull)
	}
	t.change.leases[l.Addr] = l
	return nil
}

// dropLeases removes a MAC's other leases from the overlay.
func (o *overlay) dropLeases(m fleet.MAC, except netip.Addr) {
	maps.DeleteFunc(o.leases, func(a netip.Addr, l fleet.Lease) bool { return l.MAC == m && a != except && !l.Bad })
}

// overLeases applies the overlay to a list of leases, sorted by address.
func (t *Tx) overLeases(list []fleet.Lease, fits func(netip.Addr) bool) []fleet.Lease {
	if t.over == nil || len(t.over.leases) == 0 {
		return list
	}
	list = slices.DeleteFunc(list, func(l fleet.Lease) bool { _, is := t.over.leases[l.Addr]; return is })
	for a, l := range t.over.leases {
		if fits(a) {
			l.Known = true
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b fleet.Lease) int { return a.Addr.Compare(b.Addr) })
	return list
}

// leaseOver returns the matching lease in the overlay that expires last.
func (t *Tx) leaseOver(fits func(fleet.Lease) bool) (out fleet.Lease, found bool) {
	if t.over == nil {
		return out, false
	}
	for _, l := range t.over.leases {
		if fits(l) && (!found || l.Expires.After(out.Expires)) {
			out, found = l, true
		}
	}
	out.Known = found
	return out, found
}

// onlySeen reports whether two states of a node differ only in what its machine reported, and when.
func onlySeen(a, b fleet.Node) bool {
	b.Seen, b.UUID, b.SerialSeen = a.Seen, a.UUID, a.SerialSeen
	return reflect.DeepEqual(a, b)
}
