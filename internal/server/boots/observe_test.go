package boots

import (
	"context"
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
	"pando/internal/registry"
	"pando/internal/trace"
)

// counted is a registry that counts transactions, and whose writes of history wait while blocked is not closed.
type counted struct {
	*registry.Registry
	reads, writes atomic.Int32
	blocked       chan struct{}
}

func (r *counted) View(ctx context.Context, read func(*registry.Tx) error) error {
	r.reads.Add(1)
	return r.Registry.View(ctx, read)
}

func (r *counted) Update(ctx context.Context, write func(*registry.Tx) error) error {
	r.writes.Add(1)
	return r.Registry.Update(ctx, write)
}

func (r *counted) Append(ctx context.Context, events ...trace.Event) ([]trace.Event, error) {
	select {
	case <-r.blocked:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return r.Registry.Append(ctx, events...)
}

// observer is a service that only sees DHCP packets, with the registry that it works on.
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
		Boots: timeline, Discovery: discovery.New(r, time.Now, log), Now: time.Now, Log: log,
		GivesAddresses: func() bool { return true },
	}), r
}

// A DHCP packet costs one read and at most one write of the registry, whether its machine is known or not, and its reply
// waits for no write to history. What happened is in the timeline in order when history can be written again.
func TestPacketWaitsForNoHistory(t *testing.T) {
	s, r := observer(t)
	mac, addr := fleet.MAC{2, 0, 0, 0, 0, 1}, netip.MustParseAddr("10.0.0.9")
	client := netboot.Client{Kind: netboot.PXE, Arch: netboot.BIOS, UUID: "6d2e6c1a-0000-4000-8000-000000000001"}
	packets := []struct {
		what   string
		seen   dhcp.Seen
		writes int32
	}{
		{"first packet of an unknown machine", dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: client, Reply: "OFFER"}, 1},
		{"the same again", dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: client, Reply: "OFFER"}, 0},
		{"its address", dhcp.Seen{MAC: mac, Message: "REQUEST", Client: client, Requested: addr}, 1},
		{"no boot file", dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: client, Reason: netboot.NoBootFile + "x"}, 0},
	}
	for _, p := range packets {
		r.reads.Store(0)
		r.writes.Store(0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.ObserveDHCP(p.seen)
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the reply waits for history", p.what)
		}
		if reads, writes := r.reads.Load(), r.writes.Load(); reads != 1 || writes != p.writes {
			t.Errorf("%s: %d reads and %d writes, want 1 and %d", p.what, reads, writes, p.writes)
		}
	}
	c := s.boots.At(addr)
	if c == nil {
		t.Fatal("the machine's address is not known")
	}
	before, err := r.Events(t.Context(), registry.EventFilter{Boot: c.Boot.ID})
	if err != nil || len(before) != 0 {
		t.Fatalf("written although history is blocked: %v, %v", before, err)
	}
	close(r.blocked)
	if err := s.boots.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	events, err := r.Events(t.Context(), registry.EventFilter{Boot: c.Boot.ID})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range events {
		got = append(got, string(e.Stage)+" "+string(e.Kind))
	}
	want := []string{"dhcp begin", "dhcp end", "bootfile fail", "dhcp fail"}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) || got[0] != "dhcp begin" || got[1] != "dhcp end" {
		t.Errorf("timeline: %v", got)
	}
}

// Events that wait when the server stops are written before it ends.
func TestHistoryIsWrittenAtTheEnd(t *testing.T) {
	reg, err := registry.Open(t.Context(), registry.Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer reg.Close()
	r := &counted{Registry: reg, blocked: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	boots := bootlog.New(r, time.Now, log)
	s := New(Config{Boots: boots, Discovery: discovery.New(r, time.Now, log), Now: time.Now, Log: log,
		GivesAddresses: func() bool { return false }})
	mac := fleet.MAC{2, 0, 0, 0, 0, 2}
	s.ObserveDHCP(dhcp.Seen{MAC: mac, Message: "DISCOVER", Client: netboot.Client{Kind: netboot.PXE}, Reply: "OFFER"})
	close(r.blocked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := boots.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if events, err := r.Events(t.Context(), registry.EventFilter{}); err != nil || len(events) != 1 {
		t.Errorf("%v, %v", events, err)
	}
}
