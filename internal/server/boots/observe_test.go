package boots

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pando/internal/bootlog"
	"pando/internal/dhcp"
	"pando/internal/discovery"
	"pando/internal/fleet"
	"pando/internal/netboot"
	"pando/internal/ratelimit"
	"pando/internal/registry"
	"pando/internal/trace"
)

// counted is a registry that counts transactions. Its writes of history wait until blocked is closed.
type counted struct {
	*registry.Registry
	reads, writes atomic.Int32
	fail          atomic.Bool // of writes
	blocked       chan struct{}
}

func (r *counted) View(ctx context.Context, read func(*registry.Tx) error) error {
	r.reads.Add(1)
	return r.Registry.View(ctx, read)
}

func (r *counted) Update(ctx context.Context, write func(*registry.Tx) error) error {
	r.writes.Add(1)
	if r.fail.Load() {
		return errors.New("no space left on device")
	}
	return r.Registry.Update(ctx, write)
}

func (r *counted) UpdateBoot(ctx context.Context, _ fleet.MAC, write func(*registry.Tx) error) error {
	return r.Update(ctx, write)
}

func (r *counted) Progress(ctx context.Context, boots ...fleet.BootID) (map[fleet.BootID]registry.Progress, error) {
	select {
	case <-r.blocked:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return r.Registry.Progress(ctx, boots...)
}

func (r *counted) Append(ctx context.Context, events ...trace.Event) ([]trace.Event, error) {
	select {
	case <-r.blocked:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return r.Registry.Append(ctx, events...)
}

// observer returns a service that only sees DHCP packets, and its registry.
func observer(t *testing.T) (*Service, *counted) {
	t.Helper()
	reg, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := &counted{Registry: reg, blocked: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	timeline := bootlog.New(r, time.Now, log)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- timeline.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Config{
		Registry: r, Boots: timeline, Discovery: discovery.New(r, never, time.Now, log), Now: time.Now, Log: log,
		GivesAddresses: func() bool { return true }, DHCPStopped: func() string { return "" },
	}), r
}

// handle does what internal/dhcp does with a packet: one read and one commit. own: this server gives addresses.
func handle(t *testing.T, s *Service, seen dhcp.Seen, own bool, save ...fleet.Lease) {
	t.Helper()
	var read func(dhcp.Leases) error
	if own {
		read = func(l dhcp.Leases) error {
			_, _, err := l.LeaseByMAC(seen.MAC)
			for a := netip.MustParseAddr("10.0.0.1"); err == nil && a != netip.MustParseAddr("10.0.0.5"); a = a.Next() {
				_, _, err = l.LeaseByAddr(a)
			}
			if err == nil {
				_, err = l.LeasesIn(netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.100"))
			}
			return err
		}
	}
	known, err := s.Snapshot(t.Context(), dhcp.Request{MAC: seen.MAC, Client: seen.Client}, read)
	if err == nil {
		err = s.Commit(t.Context(), dhcp.Change{Node: known.Node, Leases: save, Seen: seen})
	}
	if err != nil {
		t.Error(err)
	}
}

// A DHCP packet costs one read and at most one write of the registry, in every mode and for every machine. Its reply
// waits for no write to history. The timeline has the events in order when history can be written again.
func TestPacketWaitsForNoHistory(t *testing.T) {
	s, r := observer(t)
	mac, addr := fleet.MAC{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.9")
	client := netboot.Client{Kind: netboot.PXE, Arch: netboot.BIOS, UUID: "6d2e6c1a-0000-4000-8000-000000000001"}
	discover := dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: client, Reply: "OFFER"}
	other, third := fleet.MAC{2, 0, 0, 0, 0, 2}, fleet.MAC{2, 0, 0, 0, 0, 3}
	offered := dhcp.Seen{MAC: other, Message: "DISCOVER", Client: client, Reply: "OFFER", Own: true, Addr: addr.Next()}
	acked := offered
	acked.Message, acked.Reply = "REQUEST", "ACK"
	lease := fleet.Lease{Addr: addr.Next(), MAC: other, Expires: time.Now().Add(time.Hour)}
	given, late := lease, lease
	given.Expires = time.Now()
	late.MAC, late.Addr = third, lease.Addr.Next()
	packets := []struct {
		what          string
		seen          dhcp.Seen
		own           bool
		save          []fleet.Lease
		reads, writes int32
	}{
		{what: "proxy: first packet of an unknown machine", seen: discover, reads: 1, writes: 1},
		{what: "proxy: the same again", seen: discover, reads: 1},
		{
			what:   "proxy: its address",
			seen:   dhcp.Seen{MAC: mac, Message: "REQUEST", Client: client, Requested: addr},
			reads:  1,
			writes: 1,
		},
		{what: "proxy: no boot file", seen: dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: client,
			Reason: netboot.NoBootFile + "x"}, reads: 1},
		{what: "proxy: no firmware", seen: dhcp.Seen{MAC: third, Message: "DISCOVER"}},
		{what: "own: first packet of an unknown machine", seen: offered, own: true, reads: 1, writes: 1},
		{what: "own: the same again", seen: offered, own: true, reads: 1},
		{what: "own: its address", seen: acked, own: true, save: []fleet.Lease{lease}, reads: 1, writes: 1},
		{
			what:   "own: its release",
			seen:   dhcp.Seen{MAC: other, Message: "RELEASE", Client: client, Own: true},
			own:    true,
			save:   []fleet.Lease{given},
			reads:  1,
			writes: 1,
		},
		{
			what:   "own: no firmware",
			seen:   dhcp.Seen{MAC: third, Message: "REQUEST", Reply: "ACK", Own: true, Addr: late.Addr},
			own:    true,
			save:   []fleet.Lease{late},
			reads:  1,
			writes: 1,
		},
	}
	for _, p := range packets {
		r.reads.Store(0)
		r.writes.Store(0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			handle(t, s, p.seen, p.own, p.save...)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the reply waits for history", p.what)
		}
		if reads, writes := r.reads.Load(), r.writes.Load(); reads != p.reads || writes != p.writes {
			t.Errorf("%s: %d reads and %d writes, want %d and %d", p.what, reads, writes, p.reads, p.writes)
		}
	}
	for _, want := range []fleet.Lease{given, late} {
		_, err := s.Snapshot(t.Context(), dhcp.Request{}, func(l dhcp.Leases) error {
			if got, found, err := l.LeaseByAddr(want.Addr); err != nil || !found || got.MAC != want.MAC {
				t.Errorf("lease %+v, %v, %v; want %+v", got, found, err, want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	c := s.packets.boots.At(addr)
	if c == nil {
		t.Fatal("the machine's address is not known")
	}
	s.BootFileSent(addr, "undionly.kpxe", 9, time.Now(), nil) // the next packet must not wait for its record
	before, err := r.Events(t.Context(), registry.EventFilter{Boot: c.Boot.ID})
	if err != nil || len(before) != 0 {
		t.Fatalf("written although history is blocked: %v, %v", before, err)
	}
	// The first packet of the next boot ends the one before, of which the history has to be read.
	c.Lock()
	first := c.Boot.ID
	c.Boot.Init = time.Now()
	c.Unlock()
	began := make(chan struct{})
	go func() {
		defer close(began)
		handle(t, s, discover, false)
	}()
	select {
	case <-began:
	case <-time.After(10 * time.Second):
		t.Fatal("the first packet of a boot waits for history")
	}
	close(r.blocked)
	if err := s.packets.boots.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Boot.ID == first {
		t.Error("the packet began no boot")
	}
	events, err := r.Events(t.Context(), registry.EventFilter{Boot: first})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, string(e.Stage)+" "+string(e.Kind))
	}
	want := []string{"dhcp begin", "dhcp end", "bootfile fail", "dhcp fail", "bootfile begin", "bootfile end",
		"shutdown fail"}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) || got[0] != "dhcp begin" ||
		got[1] != "dhcp end" {
		t.Errorf("timeline: %v", got)
	}
}

// If a lease cannot be recorded, Commit returns an error, so that the lease is not acknowledged, and the boot is not
// recorded either. A packet without a lease is answered all the same.
func TestLeaseNotRecorded(t *testing.T) {
	s, r := observer(t)
	mac, addr := fleet.MAC{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.9")
	seen := dhcp.Seen{MAC: mac, Message: "REQUEST", Client: netboot.Client{Kind: netboot.PXE}, Reply: "ACK", Addr: addr}
	lease := fleet.Lease{Addr: addr, MAC: mac, Expires: time.Now().Add(time.Hour)}
	r.fail.Store(true)
	if err := s.Commit(t.Context(), dhcp.Change{Seen: seen, Leases: []fleet.Lease{lease}}); err == nil {
		t.Error("a lease that is not recorded is acknowledged")
	}
	if !s.addresses.seen.shown(mac, addr).IsZero() {
		t.Error("an address that was not acknowledged is taken to be the machine's")
	}
	if err := s.Commit(t.Context(), dhcp.Change{Seen: seen}); err != nil {
		t.Errorf("a packet without a lease waits for the records: %v", err)
	}
	r.fail.Store(false)
	handle(t, s, seen, true, lease)
	err := r.View(t.Context(), func(tx *registry.Tx) error {
		b, err := tx.Boots(registry.BootFilter{MAC: mac})
		if len(b) != 1 || b[0].Addr != addr {
			t.Errorf("boots: %+v", b)
		}
		if l, err := tx.LeaseByAddr(addr); err != nil || l.MAC != mac {
			t.Errorf("lease: %+v, %v", l, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Unknown machines beyond the limit of records still get their leases.
func TestLeaseWithoutDiscovery(t *testing.T) {
	s, r := observer(t)
	s.packets.discovery.LimitPackets(ratelimit.New(0, 0))
	mac, addr := fleet.MAC{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.9")
	seen := dhcp.Seen{MAC: mac, Message: "REQUEST", Client: netboot.Client{Kind: netboot.PXE}, Reply: "ACK", Addr: addr}
	handle(t, s, seen, true, fleet.Lease{Addr: addr, MAC: mac, Expires: time.Now().Add(time.Hour)})
	err := r.View(t.Context(), func(tx *registry.Tx) error {
		if l, err := tx.LeaseByAddr(addr); err != nil || l.MAC != mac {
			t.Errorf("lease: %+v, %v", l, err)
		}
		b, err := tx.Boots(registry.BootFilter{MAC: mac})
		if len(b) != 0 {
			t.Errorf("boots: %+v", b)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Events that wait when the server stops are written before it ends. The timeline of a boot says that this server gives
// no addresses.
func TestHistoryIsWrittenAtTheEnd(t *testing.T) {
	reg, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	r := &counted{Registry: reg, blocked: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	boots := bootlog.New(r, time.Now, log)
	const stopped = "this server stopped giving addresses"
	s := New(Config{Boots: boots, Discovery: discovery.New(r, never, time.Now, log), Now: time.Now, Log: log,
		GivesAddresses: func() bool { return false }, DHCPStopped: func() string { return stopped }})
	mac := fleet.MAC{2, 0, 0, 0, 0, 2}
	handle(
		t,
		s,
		dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.PXE}, Reply: "OFFER"},
		false,
	)
	close(r.blocked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := boots.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if events, err := r.Events(t.Context(), registry.EventFilter{}); err != nil || len(events) != 2 ||
		events[1].Message != stopped || events[1].Kind != trace.Info {
		t.Errorf("%v, %v", events, err)
	}
}
