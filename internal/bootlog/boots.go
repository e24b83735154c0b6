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

// Boots has the latest boot of each MAC. It is a write-through cache of the registry. Boots of unknown machines without
// a record are in memory only.
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

// New returns the boots of a registry. Its clock is now.
func New(reg Registry, now func() time.Time, log *slog.Logger) *Boots {
	return &Boots{registry: reg, now: now, log: log, behind: newQueue()}
}

// Entry is the latest boot of one MAC. Code that decides about the boot and records it holds its lock, so that two
// packets of a machine do not begin two boots.
type Entry struct {
	MAC fleet.MAC

	sync.Mutex
	loaded  bool // the registry was asked
	Boot    registry.Boot
	Saved   bool          // the registry has it
	waiting []trace.Event // of a boot that is not saved
	Kernel  string        // object that its script names: 64 hex digits
	DHCP    trace.Kind    // last event of stage dhcp
	Failure string        // last failure that became an event, so that a retry every 30 s does not repeat it
	failed  int           // failures that became events
	Told    bool          // its boot loader was told the address of its script
	Queued  time.Time     // last told to wait for its turn to load
	offers  int           // of its boot file in a row that it did not ask for
	Token   string        // in the initramfs that was sent, while it may be asked for again
	knocked time.Time     // first packet that may be of a next boot, of a machine that seems to run
	next    []trace.Event // what was seen since then: of the next boot, if it was one
	sent    time.Time     // when the initramfs was taken whole: what comes long after is of another boot
	last    uint64        // place in the queue of the last event that is written behind
	ended   string        // why the boot before ended, for this one's timeline; "": nothing to tell
}

// Ended notes what the machine told of the end of its latest boot, for the timeline of the next.
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

// OfWith is Of for who also reads something else: read sees the same state of the registry.
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

// slot finds or makes the place of a MAC in memory.
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

// forget drops a boot from memory; mu is held.
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

// At finds the boot of the machine that has an address, as far as memory tells; it is not locked. nil: none.
func (b *Boots) At(addr netip.Addr) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byAddr[addr]
}

// Restore brings the boots that were under way when the server stopped back to memory. kernel tells the object
// that a version's script names.
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

// kernelStarts is how soon after its initramfs iPXE asks again, on the same boot, when it cannot start the kernel.
const kernelStarts = 30 * time.Second

// Loaded notes that the machine has taken its initramfs: it starts its kernel now. Its lock is held.
func (c *Entry) Loaded(now time.Time) { c.sent = now }

// LoadedBefore reports whether the machine had started the kernel of this boot before a time. Its lock is held.
func (c *Entry) LoadedBefore(at time.Time) bool { return !c.sent.IsZero() && c.sent.Before(at) }

// Restarted reports whether a packet or a request that a boot under way gets is of another boot: the machine was sent
// its script, and its firmware runs again (anew), or it comes long after its kernel was started. Its lock is held.
func (c *Entry) Restarted(now time.Time, anew bool) bool {
	if c.Boot.Scripted.IsZero() {
		return false
	}
	return anew || !c.Knock(now).IsZero() || !c.sent.IsZero() && now.Sub(c.sent) > kernelStarts
}

// Knocked notes what is seen of a machine that seems to run or to load: it may be of its next boot, which the request
// for a script begins. Anybody can send a packet. Its lock is held.
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

// Knock is when the packets began that Knocked noted; zero: there were none lately. Its lock is held.
func (c *Entry) Knock(now time.Time) time.Time {
	if now.Sub(c.knocked) >= Continues || c.knocked.Before(c.Boot.Started) {
		return time.Time{}
	}
	return c.knocked
}

// Arrived notes that the boot goes on: what knocked meanwhile was not its machine. Its lock is held.
func (c *Entry) Arrived() { c.knocked, c.next = time.Time{}, nil }

// Follow begins the machine's next boot at the time at which it was seen first, with what was seen of it since. The
// boot before it has ended, whether its machine said so or not. Its lock is held.
func (b *Boots) Follow(ctx context.Context, c *Entry, now time.Time) {
	began, seen := now, c.next
	if at := c.Knock(now); !at.IsZero() {
		began = at
	} else {
		seen = nil
	}
	b.conclude(ctx, c, began)
	c.Begin(began)
	for _, e := range seen {
		if e.Stage == trace.DHCP {
			c.DHCP = e.Kind
		}
	}
	b.RecordBehind(c, seen...)
}

// conclude records that the boot of c is over, of which its machine did not say that. The boot's lock is held.
func (b *Boots) conclude(ctx context.Context, c *Entry, at time.Time) {
	if !c.Saved {
		return
	}
	known, err := b.registry.Progress(ctx, c.Boot.ID)
	if err != nil {
		b.lost(c, err)
		return
	}
	e := trace.Event{Time: at, Stage: trace.Shutdown, Kind: trace.Fail,
		Message: "it began anew before it was booted", Hint: "if nobody reset it: what its screen said, and " +
			"`pando boot show " + string(c.Boot.ID) + " --console`"}
	switch p := known[c.Boot.ID]; {
	case p.State == trace.Down, p.Waits: // what waited for an operator did not fail
		return
	case p.State == trace.Up:
		e.Kind, e.Hint = trace.End, ""
		e.Message = "it began anew without saying that it goes down: it was reset, or had no power"
	}
	b.RecordBehind(c, e)
}

// Begin makes c a new boot, in memory, of a machine that has said what became of the boot before. Its lock is held.
func (c *Entry) Begin(now time.Time) {
	c.Boot = registry.Boot{
		ID: fleet.BootID(identity.NewBootID()), MAC: c.MAC, Started: now, PXEMenu: c.Boot.PXEMenu,
	}
	c.Saved, c.waiting, c.Kernel, c.DHCP, c.Failure, c.Token = false, nil, "", "", "", ""
	c.Queued, c.Told, c.knocked, c.failed = time.Time{}, false, time.Time{}, 0
	c.next, c.sent = nil, time.Time{}
}

// Save writes the boot through, after change. A boot that was not saved yet is created. Its lock is held.
func (b *Boots) Save(ctx context.Context, c *Entry, change func(*registry.Boot)) error {
	return b.SaveWith(ctx, c, nil, change)
}

// SaveWith is Save for who also writes something else: both are written, or none. When write returns false, the boot is
// not saved.
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

// put writes a boot as it is in the registry, after change.
func put(tx *registry.Tx, c *Entry, change func(*registry.Boot)) (registry.Boot, error) {
	next := c.Boot
	if c.Saved {
		stored, err := tx.Boot(c.Boot.ID)
		if err == nil {
			stored.PXEMenu = c.Boot.PXEMenu
			change(&stored) // an operator may have renamed the node, a report may have come
			return stored, tx.PutBoot(stored)
		}
		if !errors.Is(err, registry.ErrNotFound) { // forgotten as one too many
			return next, err
		}
	}
	change(&next)
	return next, tx.CreateBoot(next)
}

// ByID returns the boot with an id, locked. It returns ErrNotFound unless it is the latest boot of its MAC: an older
// one may not request anything.
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
