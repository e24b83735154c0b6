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

// maxOverlay bounds the boots and leases that are in memory only.
const maxOverlay = 16384

// overlay is what boots of known nodes wrote while not even the reserve had room. It lies over what is on the disk. One
// that was published is never changed.
type overlay struct {
	boots  map[fleet.BootID]Boot
	leases map[netip.Addr]fleet.Lease
	ended  map[fleet.MAC]fleet.BootID // sessions of its other boots are worthless
}

func (o *overlay) clone() *overlay {
	if o == nil {
		return &overlay{map[fleet.BootID]Boot{}, map[netip.Addr]fleet.Lease{}, map[fleet.MAC]fleet.BootID{}}
	}
	return &overlay{maps.Clone(o.boots), maps.Clone(o.leases), maps.Clone(o.ended)}
}

// memory holds the overlay.
type memory struct {
	mu  sync.Mutex // held from a change that cannot be written, or is about to be, until it is known what became of it
	now atomic.Pointer[overlay]
}

// remember runs a change of a boot in memory.
func (r *Registry) remember(ctx context.Context, fn func(*Tx) error) error {
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	o := r.memory.now.Load().clone()
	if len(o.boots)+len(o.leases) >= maxOverlay {
		return fmt.Errorf("%w, and too much is in memory only", ErrFull)
	}
	tx, err := r.main.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("read registry: %w", err)
	}
	defer tx.Rollback() // nothing was written
	if err := fn(&Tx{ctx: ctx, tx: tx, over: o, change: o}); err != nil {
		return err
	}
	r.memory.now.Store(o)
	return nil
}

// update writes a change, and with it what is in memory only.
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
				return fmt.Errorf("write what was in memory only: %w", err)
			}
		}
		return fn(&Tx{ctx: ctx, tx: tx})
	})
	if err == nil {
		r.memory.now.Store(nil)
	}
	return err
}

// write puts the overlay on the disk.
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

// boot is a boot as the overlay has it.
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

// only returns the boots that are in the overlay and that who asks may see.
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

// overlaid puts the overlay over a list of boots, newest first.
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

// putLease notes a lease of a known node in the overlay that is being changed.
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

// dropLeases forgets a MAC's other leases of the overlay.
func (o *overlay) dropLeases(m fleet.MAC, except netip.Addr) {
	maps.DeleteFunc(o.leases, func(a netip.Addr, l fleet.Lease) bool { return l.MAC == m && a != except && !l.Bad })
}

// overLeases puts the overlay over leases that are in some order of their addresses.
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

// leaseOver returns the lease of the overlay that fits and runs longest.
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

// onlySeen reports whether two states of a node differ in what its machine said, and when, and in nothing else.
func onlySeen(a, b fleet.Node) bool {
	b.Seen, b.UUID, b.SerialSeen = a.Seen, a.UUID, a.SerialSeen
	return reflect.DeepEqual(a, b)
}
