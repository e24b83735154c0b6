package bootlog

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/netboot"
	"pando/internal/registry"
	"pando/internal/trace"
)

// Continues is how long firmware and boot loader may take to reach /init. DISCOVERs until then belong to the boot that
// the first one began.
const Continues = 10 * time.Minute

// maxCurrent bounds the boots in memory; the registry has the others.
const maxCurrent = 16384

// Registry is where boots and their events are recorded.
type Registry interface {
	View(context.Context, func(*registry.Tx) error) error
	UpdateBoot(context.Context, fleet.MAC, func(*registry.Tx) error) error
	Append(context.Context, ...trace.Event) ([]trace.Event, error)
	Progress(context.Context, ...fleet.BootID) (map[fleet.BootID]registry.Progress, error)
}

// Boots has the latest boot of each MAC. It is a write-through cache of the registry. Boots of unknown machines that
// have no record are in memory only.
type Boots struct {
	registry Registry
	now      func() time.Time
	log      *slog.Logger
	behind   *queue

	mu     sync.Mutex
	byMAC  map[fleet.MAC]*list.Element // of *current
	byAddr map[netip.Addr]*Entry
	recent list.List // latest first
}

// New returns the Boots of a registry. now is its clock.
func New(reg Registry, now func() time.Time, log *slog.Logger) *Boots {
	return &Boots{registry: reg, now: now, log: log, behind: newQueue()}
}

// Entry is the latest boot of one MAC. Code that decides about the boot and records it holds its lock, so that two
// packets of a machine do not begin two boots.
type Entry struct {
	MAC fleet.MAC

	sync.Mutex
	loaded  bool // the registry was read
	Boot    registry.Boot
	Saved   bool          // the registry has it
	waiting []trace.Event // events of a boot that is not saved yet
	Kernel  string        // kernel object that its script names: 64 hex digits
	DHCP    trace.Kind    // last event of stage dhcp
	Failure string        // last failure that became an event, so that a retry every 30 s does not repeat it
	failed  int           // failures that became events
	Told    bool          // its boot loader was told the address of its script
	Queued  time.Time     // when the machine was last told to wait for a slot
	offers  int           // offers of its boot file in a row that the machine did not take
	Load    Load          // what its script names, if its loader verifies digests
	Token   string        // token in the initramfs that was sent, while the machine may request it again
	knocked time.Time     // time of the first packet that may belong to the next boot, while the machine seems to run
	next    []trace.Event // events since knocked; they belong to the next boot if there is one
	sent    time.Time     // when the whole initramfs was sent; requests long after belong to another boot
	last    uint64        // place in the queue of the last event that is written after its reply
	ended   string        // why the boot before ended, for this boot's timeline; "": not reported
}

// Load is what a script names that makes a machine verify kernel and initramfs. The zero value: it does not.
type Load struct {
	Objects       netboot.Objects
	KernelSize    int64
	InitramfsSize int64
	Keep          bool                 // the node gets both objects as a file
	Neighbours    []netboot.Source     // in the order of the script
	Began         time.Time            // when the machine began to load the object that comes next
	Reported      map[trace.Stage]bool // stages of which the machine reported the source
}

// Ended stores why a machine's latest boot ended, as the machine reported it, for the timeline of the next boot.
func (b *Boots) Ended(ctx context.Context, mac fleet.MAC, why string) error {
	c, err := b.Of(ctx, mac)
	if err == nil {
		c.ended = fmt.Sprintf("the boot before, %s, ended: %s", c.Boot.ID, why)
		c.Unlock()
	}
	return err
}

// NoteEnded records why the boot before ended, once. The boot's lock is held.
func (b *Boots) NoteEnded(ctx context.Context, c *Entry) {
	if c.ended != "" {
		b.Record(ctx, c, trace.Event{Stage: trace.Register, Kind: trace.Info, Message: c.ended})
		c.ended = ""
	}
}

// Of returns the latest boot of a MAC, locked. The caller unlocks it.
func (b *Boots) Of(ctx context.Context, mac fleet.MAC) (*Entry, error) {
	return b.OfWith(ctx, mac, nil)
}

// OfWith is like Of and also runs read on the same registry state.
func (b *Boots) OfWith(ctx context.Context, mac fleet.MAC, read func(*registry.Tx) error) (*Entry, error) {
	if !mac.OfOne() {
		return nil, api.NewError(api.BadRequest, mac.String()+" is not the MAC address of one machine", "")
	}
	c := b.slot(mac)
	c.Lock()
	if c.loaded && read == nil {
		return c, nil
	}
	err := b.registry.View(ctx, func(tx *registry.Tx) error {
		if read != nil {
			if err := read(tx); err != nil {
				return err
			}
		}
		if c.loaded {
			return nil
		}
		latest, err := tx.Boots(registry.BootFilter{MAC: mac, Limit: 1})
		if len(latest) == 1 {
			c.Boot, c.Saved, c.DHCP = latest[0], true, trace.End
		}
		return err
	})
	if err != nil {
		c.Unlock()
		return nil, err
	}
	c.loaded = true
	return c, nil
}

// slot returns the entry of a MAC in memory, and creates it if there is none.
func (b *Boots) slot(mac fleet.MAC) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byMAC == nil {
		b.byMAC, b.byAddr = make(map[fleet.MAC]*list.Element), make(map[netip.Addr]*Entry)
	}
	el, ok := b.byMAC[mac]
	if !ok {
		el = b.recent.PushFront(&Entry{MAC: mac})
		b.byMAC[mac] = el
		if b.recent.Len() > maxCurrent {
			b.forget(b.recent.Back())
		}
	}
	b.recent.MoveToFront(el)
	return el.Value.(*Entry)
}

// forget drops a boot from memory. mu is held.
func (b *Boots) forget(el *list.Element) {
	c := el.Value.(*Entry)
	delete(b.byMAC, c.MAC)
	for addr, other := range b.byAddr {
		if other == c {
			delete(b.byAddr, addr)
		}
	}
	b.recent.Remove(el)
}

// SetAddr records that the machine of c answers at addr.
func (b *Boots) SetAddr(c *Entry, addr netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.byAddr[addr]; old != c {
		b.byAddr[addr] = c
	}
}

// At returns the boot of the machine that has an address, not locked; nil if none in memory has it.
func (b *Boots) At(addr netip.Addr) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byAddr[addr]
}

// Restore loads the boots that were under way when the server stopped. kernel returns the kernel object of a version.
func (b *Boots) Restore(ctx context.Context, kernel func(fleet.Digest) string) error {
	var recent []registry.Boot
	err := b.registry.View(ctx, func(tx *registry.Tx) (err error) {
		recent, err = tx.Boots(registry.BootFilter{Since: b.now().Add(-Continues), Limit: maxCurrent})
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range recent {
		c := b.slot(r.MAC)
		c.Lock()
		if !c.loaded { // the newest comes first
			c.loaded, c.Boot, c.Saved, c.DHCP = true, r, true, trace.End
			if !r.Scripted.IsZero() && r.TokenUsed.IsZero() {
				c.Kernel = kernel(r.Version)
			}
			if r.Addr.IsValid() {
				b.SetAddr(c, r.Addr)
			}
		}
		c.Unlock()
	}
	return nil
}

// UnderWay reports whether a packet of firmware or boot loader belongs to this boot. Its lock is held.
func (c *Entry) UnderWay(now time.Time) bool {
	recent := now.Sub(c.Boot.Started) < Continues || now.Sub(c.Queued) < Continues
	return c.Boot.ID != "" && c.Boot.Init.IsZero() && c.Boot.TokenUsed.IsZero() && recent
}

// kernelStarts is how soon after its initramfs iPXE requests again, on the same boot, if it cannot start the kernel.
const kernelStarts = 30 * time.Second

// Loaded records that the machine has the whole initramfs and starts its kernel now. Its lock is held.
func (c *Entry) Loaded(now time.Time) { c.sent = now }

// LoadedBefore reports whether the machine had started the kernel of this boot before a time. Its lock is held.
func (c *Entry) LoadedBefore(at time.Time) bool { return !c.sent.IsZero() && c.sent.Before(at) }

// Restarted reports whether a packet or request during this boot belongs to another boot: the machine was sent its
// script, and either its firmware runs again (firmware) or the packet comes long after the kernel's start. Its lock is
// held.
func (c *Entry) Restarted(now time.Time, firmware bool) bool {
	if c.Boot.Scripted.IsZero() {
		return false
	}
	return firmware || !c.Knock(now).IsZero() || !c.sent.IsZero() && now.Sub(c.sent) > kernelStarts
}

// Knocked keeps what is seen of a machine that seems to run or to load. It may belong to the next boot, which only a
// request for a script begins, because anybody can send a packet. Its lock is held.
func (c *Entry) Knocked(now time.Time, what string, seen ...trace.Event) {
	if c.Knock(now).IsZero() {
		c.knocked, c.next = now, nil
		seen = append([]trace.Event{{Time: now, Stage: trace.DHCP, Kind: trace.Begin, Message: what}}, seen...)
	}
	for i := range seen {
		if seen[i].Time.IsZero() {
			seen[i].Time = now
		}
	}
	if len(c.next)+len(seen) <= maxWaiting {
		c.next = append(c.next, seen...)
	}
}

// Knock returns the time of the first packet that Knocked kept; zero: there was none lately. Its lock is held.
func (c *Entry) Knock(now time.Time) time.Time {
	if now.Sub(c.knocked) >= Continues || c.knocked.Before(c.Boot.Started) {
		return time.Time{}
	}
	return c.knocked
}

// Arrived records that this boot goes on: the packets that Knocked kept were not of its machine. Its lock is held.
func (c *Entry) Arrived() { c.knocked, c.next = time.Time{}, nil }

// Follow begins the machine's next boot at the time of the first packet that Knocked kept, with the events since then.
// The boot before it has ended, even if its machine did not report that. Its lock is held.
func (b *Boots) Follow(c *Entry, now time.Time) {
	began, seen := now, c.next
	if at := c.Knock(now); !at.IsZero() {
		began = at
	} else {
		seen = nil
	}
	b.conclude(c, began)
	c.Begin(began)
	for _, e := range seen {
		if e.Stage == trace.DHCP {
			c.DHCP = e.Kind
		}
	}
	b.RecordBehind(c, seen...)
}

// conclude records that the boot of c is over, if its machine did not report that. What the machine reported is read
// behind the reply, with the write. The boot's lock is held.
func (b *Boots) conclude(c *Entry, at time.Time) {
	if c.Saved {
		b.queue(c, true, []trace.Event{{Time: at, Stage: trace.Shutdown, Kind: trace.Fail}})
	}
}

// conclusion is the event that ends a boot whose machine started again, by what was recorded of it before. ended
// reports that nothing is to be recorded.
func conclusion(e trace.Event, p registry.Progress) (_ trace.Event, ended bool) {
	switch {
	case p.State == trace.Down, p.Waits: // a boot that waited for an operator did not fail
		return e, true
	case p.State == trace.Up:
		e.Kind = trace.End
		e.Message = "the machine started again without reporting a shutdown: it was reset, or had no power"
	default:
		e.Message = "the machine started again before it was up"
		e.Hint = "if nobody reset it, look at its screen and at `pando boot show " + string(e.Boot) + " --console`"
	}
	return e, false
}

// Begin makes c a new boot, in memory. The machine has reported how the boot before ended. Its lock is held.
func (c *Entry) Begin(now time.Time) {
	c.Boot = registry.Boot{
		ID: fleet.BootID(identity.NewBootID()), MAC: c.MAC, Started: now, PXEMenu: c.Boot.PXEMenu,
	}
	c.Saved, c.waiting, c.Kernel, c.DHCP, c.Failure, c.Token = false, nil, "", "", "", ""
	c.Queued, c.Told, c.knocked, c.failed = time.Time{}, false, time.Time{}, 0
	c.next, c.sent = nil, time.Time{}
}

// Save applies change to the boot and writes it to the registry. A boot that was not saved yet is created. Its lock is
// held.
func (b *Boots) Save(ctx context.Context, c *Entry, change func(*registry.Boot)) error {
	return b.SaveWith(ctx, c, nil, change)
}

// SaveWith is like Save and also runs write in the same transaction. If write returns false, the boot is not saved.
func (b *Boots) SaveWith(ctx context.Context, c *Entry, write func(*registry.Tx) (bool, error),
	change func(*registry.Boot)) error {
	next, saved := c.Boot, false
	err := b.registry.UpdateBoot(ctx, c.MAC, func(tx *registry.Tx) (err error) {
		if write != nil {
			if saved, err = write(tx); err != nil || !saved {
				return err
			}
		}
		saved = true
		next, err = put(tx, c, change)
		return err
	})
	if err != nil {
		return fmt.Errorf("record boot %s: %w", c.Boot.ID, err)
	}
	if saved {
		c.Boot, c.Saved = next, true
	}
	return nil
}

// put reads a boot from the registry, applies change and writes it back.
func put(tx *registry.Tx, c *Entry, change func(*registry.Boot)) (registry.Boot, error) {
	next := c.Boot
	if c.Saved {
		stored, err := tx.Boot(c.Boot.ID)
		if err == nil {
			stored.PXEMenu = c.Boot.PXEMenu
			change(&stored) // an operator may have renamed the node, or a report may have arrived
			return stored, tx.PutBoot(stored)
		}
		if !errors.Is(err, registry.ErrNotFound) { // deleted because there were too many boots
			return next, err
		}
	}
	change(&next)
	return next, tx.CreateBoot(next)
}

// ByID returns the boot with an id, locked. It returns ErrNotFound unless the boot is the latest of its MAC: an older
// boot may not request anything.
func (b *Boots) ByID(ctx context.Context, id fleet.BootID) (*Entry, error) {
	var found registry.Boot
	err := b.registry.View(ctx, func(tx *registry.Tx) (err error) {
		found, err = tx.Boot(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := b.Of(ctx, found.MAC)
	if err != nil {
		return nil, err
	}
	if c.Boot.ID != id {
		c.Unlock()
		return nil, fmt.Errorf("boot %q is not the latest of %s: %w", id, found.MAC, registry.ErrNotFound)
	}
	return c, nil
}
