package server

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/registry"
	"pando/internal/trace"
)

// continues is how long firmware and boot loader may take to reach /init: their DISCOVERs until then belong to
// the boot that the first one began.
const continues = 10 * time.Minute

// maxCurrent bounds the boots in memory; the registry has the others.
const maxCurrent = 16384

// boots knows the latest boot of each MAC. Memory is a cache of the registry, written through, except for the
// boots of strangers that are not worth a record yet: those are in memory only.
type boots struct {
	registry *registry.Registry
	now      func() time.Time

	mu     sync.Mutex
	byMAC  map[fleet.MAC]*list.Element // of *current
	byAddr map[netip.Addr]*current
	recent list.List // latest first
}

// current is the latest boot of one MAC. Its fields are guarded by mu, which is held while the boot is decided
// about and recorded, so that two packets of one machine do not begin two boots.
type current struct {
	mac fleet.MAC

	mu      sync.Mutex
	loaded  bool // the registry was asked
	boot    registry.Boot
	saved   bool          // the registry has it
	waiting []trace.Event // of a boot that is not saved
	kernel  string        // object that its script names: 64 hex digits
	dhcp    trace.Kind    // last event of stage dhcp
	failure string        // last failure that became an event, so that a retry every 30 s does not repeat it
	queued  time.Time     // last told to wait for its turn to load
	token   string        // in the initramfs that was sent, while it may be asked for again
}

// of returns the latest boot of a MAC, locked; the caller unlocks it.
func (b *boots) of(ctx context.Context, mac fleet.MAC) (*current, error) {
	if !mac.OfOne() {
		return nil, api.NewError(api.BadRequest, mac.String()+" is not the MAC address of one machine", "")
	}
	c := b.slot(mac)
	c.mu.Lock()
	if c.loaded {
		return c, nil
	}
	err := b.registry.View(ctx, func(tx *registry.Tx) error {
		latest, err := tx.Boots(registry.BootFilter{MAC: mac, Limit: 1})
		if len(latest) == 1 {
			c.boot, c.saved, c.dhcp = latest[0], true, trace.End
		}
		return err
	})
	if err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.loaded = true
	return c, nil
}

// slot finds or makes the place of a MAC in memory.
func (b *boots) slot(mac fleet.MAC) *current {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byMAC == nil {
		b.byMAC, b.byAddr = make(map[fleet.MAC]*list.Element), make(map[netip.Addr]*current)
	}
	el, ok := b.byMAC[mac]
	if !ok {
		el = b.recent.PushFront(&current{mac: mac})
		b.byMAC[mac] = el
		if b.recent.Len() > maxCurrent {
			b.forget(b.recent.Back())
		}
	}
	b.recent.MoveToFront(el)
	return el.Value.(*current)
}

// forget drops a boot from memory; mu is held.
func (b *boots) forget(el *list.Element) {
	c := el.Value.(*current)
	delete(b.byMAC, c.mac)
	for addr, other := range b.byAddr {
		if other == c {
			delete(b.byAddr, addr)
		}
	}
	b.recent.Remove(el)
}

// has records that the machine of c answers at addr.
func (b *boots) has(c *current, addr netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.byAddr[addr]; old != c {
		b.byAddr[addr] = c
	}
}

// at finds the boot of the machine that has an address, as far as memory tells; it is not locked. nil: none.
func (b *boots) at(addr netip.Addr) *current {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byAddr[addr]
}

// restore brings the boots that were under way when the server stopped back to memory. kernel tells the object
// that a version's script names.
func (b *boots) restore(ctx context.Context, kernel func(fleet.Digest) string) error {
	var recent []registry.Boot
	err := b.registry.View(ctx, func(tx *registry.Tx) (err error) {
		recent, err = tx.Boots(registry.BootFilter{Since: b.now().Add(-continues), Limit: maxCurrent})
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range recent {
		c := b.slot(r.MAC)
		c.mu.Lock()
		if !c.loaded { // the newest comes first
			c.loaded, c.boot, c.saved, c.dhcp = true, r, true, trace.End
			if !r.Scripted.IsZero() && r.TokenUsed.IsZero() {
				c.kernel = kernel(r.Version)
			}
			if r.Addr.IsValid() {
				b.has(c, r.Addr)
			}
		}
		c.mu.Unlock()
	}
	return nil
}

// underWay reports whether a packet of firmware or boot loader belongs to this boot. mu is held.
func (c *current) underWay(now time.Time) bool {
	recent := now.Sub(c.boot.Started) < continues || now.Sub(c.queued) < continues
	return c.boot.ID != "" && c.boot.Init.IsZero() && c.boot.TokenUsed.IsZero() && recent
}

// begin makes c a new boot, in memory. mu is held.
func (c *current) begin(now time.Time) {
	c.boot = registry.Boot{ID: fleet.BootID(identity.NewBootID()), MAC: c.mac, Started: now}
	c.saved, c.waiting, c.kernel, c.dhcp, c.failure, c.token = false, nil, "", "", "", ""
	c.queued = time.Time{}
}

// save writes the boot through, after change. A boot that was not saved yet is created. mu is held.
func (b *boots) save(ctx context.Context, c *current, change func(*registry.Boot)) error {
	next := c.boot
	err := b.registry.Update(ctx, func(tx *registry.Tx) error {
		if !c.saved {
			change(&next)
			return tx.CreateBoot(next)
		}
		stored, err := tx.Boot(c.boot.ID)
		if errors.Is(err, registry.ErrNotFound) { // forgotten as one too many
			change(&next)
			return tx.CreateBoot(next)
		}
		if err != nil {
			return err
		}
		next = stored // an operator may have renamed the node, a report may have come
		change(&next)
		return tx.PutBoot(next)
	})
	if err != nil {
		return fmt.Errorf("record boot %s: %w", c.boot.ID, err)
	}
	c.boot, c.saved = next, true
	return nil
}

// byID returns the boot with an id, locked. It is ErrNotFound unless it is the latest of its MAC: an older one
// has nothing to ask for any more.
func (b *boots) byID(ctx context.Context, id fleet.BootID) (*current, error) {
	var found registry.Boot
	err := b.registry.View(ctx, func(tx *registry.Tx) (err error) {
		found, err = tx.Boot(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := b.of(ctx, found.MAC)
	if err != nil {
		return nil, err
	}
	if c.boot.ID != id {
		c.mu.Unlock()
		return nil, fmt.Errorf("boot %q is not the latest of %s: %w", id, found.MAC, registry.ErrNotFound)
	}
	return c, nil
}
