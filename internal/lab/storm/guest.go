package storm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// mostGuests is how many emulated machines this computer can run without their boots mostly waiting for processors.
const mostGuests = 8

// guestLink is the rate of a guest's link. freeLink is so fast that a guest never waits for it: comparing the two shows
// how much of the time the link causes.
const (
	guestLink = 20 * testkit.Mbit
	freeLink  = 10 * testkit.Gbit
)

// guestRun is a run of emulated machines that were switched on at the same time.
type guestRun struct {
	Release   string    `json:"release,omitempty"` // of Pando; "": not recorded
	System    string    `json:"system"`            // bench.PandoWay, or a rival's name
	Guests    int       `json:"guests"`
	Rate      int64     `json:"rate"`           // of all links
	Skew      float64   `json:"skew,omitempty"` // seconds by which the clocks were wrong, alternately ahead and behind
	Began     time.Time `json:"began"`
	Booted    []float64 `json:"booted"`     // seconds from power-on to the default target, in ascending order
	SinceInit []float64 `json:"since_init"` // the same since /init, by the machines' own clocks
	// all frames, including kernel and initramfs (a rival's machines get those from the emulator)
	ServerSent int64      `json:"server_sent"`
	BootSet    int64      `json:"boot_set,omitempty"` // W until the stage at which each boot ends; 0: not recorded
	RootSent   int64      `json:"root_sent"`          // bytes of the root, without headers, by machines' reports
	Load       bench.Load `json:"load"`
	Failed     []string   `json:"failed,omitempty"` // errors of the machines that did not boot
}

// guest is one machine of a run; times are in seconds.
type guest struct {
	booted, sinceInit float64
	received          int64 // bytes of the root from the server; 0: unknown
}

// withGuests are the rivals that are measured with Pando's guests: they need drivers that the lab's own kernel lacks.
var withGuests = []string{"nbd-squashfs", "nfs"}

// bootGuests boots whole machines on the links of the storm, and again on links without a limit.
func (s *Storm) bootGuests(ctx context.Context, m *testbed.Material) error {
	rep := newReport(m, s)
	if err := s.readyForGuests(ctx); err != nil {
		return err
	}
	rate := s.rate
	if rate == 0 {
		rate = guestLink
	}
	var failed error
	for _, rate := range []testkit.Rate{rate, freeLink} {
		for _, system := range s.guestSystems() {
			r, err := s.guestsOrRepeat(
				ctx,
				system,
				func() (guestRun, error) { return s.bootGuestsAt(ctx, m, rate, system) },
			)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, %d guests: %w", system, s.guests, err))
			}
			if err != nil && len(r.Failed) == 0 {
				return failed
			}
			rep.Guests = append(rep.Guests, r)
			if err := rep.save(filepath.Join(s.Dir, "storm.json")); err != nil {
				return err
			}
			s.Say(
				"%s, %d guests, links of %s: booted after %.0f s, since /init %.0f s",
				system,
				r.Guests,
				rate,
				r.Booted,
				r.SinceInit,
			)
		}
	}
	s.Say(
		"\n%s\nRaw data: %s",
		bench.Table(append([]bench.Row{guestHeads}, rep.guestRows()...)),
		filepath.Join(s.Dir, "storm.json"),
	)
	return failed
}

// guestSystems returns the systems to measure. With wrong clocks it is only Pando, the only one with certificates and
// signatures.
func (s *Storm) guestSystems() []string {
	if s.skew != 0 {
		return []string{bench.PandoWay}
	}
	return append([]string{bench.PandoWay}, withGuests...)
}

// readyForGuests restarts the server with DHCP, and prepares the guests' networks.
func (s *Storm) readyForGuests(ctx context.Context) error {
	if err := s.Site.Close(); err != nil {
		return err
	}
	if err := s.Serve(ctx, "own"); err != nil {
		return err
	}
	for i := range s.guests {
		if err := s.Star.Host(i); err != nil {
			return err
		}
	}
	return s.AdoptAll(ctx, testkit.KernelArgs())
}

func guestName(i int) string { return fmt.Sprintf("guest%d", i+1) }

func guestMAC(i int) fleet.MAC { return fleet.MAC{0x52, 0x54, 0, 0xde, 2, byte(i)} }

// bootGuestsAt makes one run. If machines did not boot, it returns the run and an error.
func (s *Storm) bootGuestsAt(
	ctx context.Context,
	m *testbed.Material,
	rate testkit.Rate,
	system string,
) (r guestRun, err error) {
	r = guestRun{
		Release: s.release,
		System:  system,
		Guests:  s.guests,
		BootSet: m.Booted,
		Rate:    int64(rate),
		Skew:    s.skew.Seconds(),
		Began:   time.Now().UTC(),
	}
	if err := s.Star.Limit(rate, rate); err != nil {
		return r, err
	}
	boot, stop, err := s.guestBootOf(ctx, m, system)
	if err != nil {
		return r, err
	}
	defer stop()
	before, err := s.look()
	if err != nil {
		return r, err
	}
	r.Began = time.Now().UTC()
	guests, errs := make([]guest, s.guests), make([]error, s.guests)
	var all sync.WaitGroup
	for i := range s.guests {
		all.Go(func() { errs[i] = s.bootGuest(ctx, i, r.Began, boot, &guests[i]) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	after, err := s.look()
	if err != nil {
		return r, err
	}
	r.ServerSent = after.sent - before.sent
	r.Load = before.ticks.Load(after.ticks, after.own-before.own)
	r.add(guests, errs)
	return r, errors.Join(errs...)
}

// add adds the measurements of the machines that booted, and records the errors of the others.
func (r *guestRun) add(guests []guest, errs []error) {
	for i, g := range guests {
		if errs[i] != nil {
			r.Failed = append(r.Failed, bench.Reason(errs[i]))
			continue
		}
		r.Booted, r.SinceInit, r.RootSent = append(
			r.Booted,
			g.booted,
		), append(
			r.SinceInit,
			g.sinceInit,
		), r.RootSent+g.received
	}
	slices.Sort(r.Booted)
	slices.Sort(r.SinceInit)
}

// guestBootOf returns how machines of a system start, and how to find out that one is up. The caller calls stop when
// all are done.
func (s *Storm) guestBootOf(ctx context.Context, m *testbed.Material, system string) (b guestBoot, stop func(),
	err error) {
	for _, r := range s.kernelRivals {
		if r.Name == system {
			b.wait = func(ctx context.Context, _ string, m *testkit.Machine) (g guest, err error) {
				g.sinceInit, err = r.Booted(ctx, m)
				return g, err
			}
			b.direct, stop, err = r.Start(ctx, s.Host(), m.Image, testkit.KernelArgs())
			return b, stop, err
		}
	}
	return guestBoot{wait: s.pandoGuest}, func() {}, nil
}

// guestBoot says how a machine starts; its function waits until the machine is up.
type guestBoot struct {
	direct testkit.Direct
	wait   func(ctx context.Context, name string, m *testkit.Machine) (guest, error)
}

// pandoGuest waits until the server reports that the node is up.
func (s *Storm) pandoGuest(ctx context.Context, name string, _ *testkit.Machine) (g guest, err error) {
	if _, err := s.Site.WaitNode(ctx, name, bench.Up); err != nil {
		return g, err
	}
	b, err := s.Site.API.NodeBoot(ctx, name)
	e := testbed.BootedEvent(b)
	return guest{sinceInit: e.Offset.Seconds(), received: max(e.Bytes["server"], b.Bytes["server"])}, err
}

// bootGuest creates the node again, so that an earlier boot is not mistaken for this one, and switches the machine off
// when it is up.
func (s *Storm) bootGuest(ctx context.Context, i int, began time.Time, boot guestBoot, g *guest) (err error) {
	name := guestName(i)
	if _, err := s.Site.API.Node(ctx, name); err == nil {
		if _, err := s.Site.API.DeleteNodes(ctx, name, false); err != nil {
			return err
		}
	}
	if _, err := s.Site.API.CreateNode(ctx, api.NodeCreate{Name: name, MACs: []fleet.MAC{guestMAC(i)}}); err != nil {
		return err
	}
	m, err := testkit.StartMachine(
		testkit.MachineConfig{
			Name:     name,
			Firmware: testkit.BIOS,
			MAC:      guestMAC(i),
			Net:      s.Star.Nodes[i],
			Memory:   s.Memory,
			Clock:    skewOf(s.skew, i),
			Dir:      filepath.Join(s.Dir, "guests"),
			Direct:   boot.direct,
		},
	)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	const longest = testbed.RecordTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("not booted after %s", longest))
	defer cancel()
	if *g, err = boot.wait(ctx, name, m); err != nil {
		return fmt.Errorf("%w; the console ends with:\n%s", err, m.Console.Tail(12))
	}
	g.booted = time.Since(began).Seconds()
	return nil
}

// skewOf returns how far the clock of one guest is ahead. Every second clock is behind.
func skewOf(skew time.Duration, i int) time.Duration {
	if i%2 == 1 {
		return -skew
	}
	return skew
}
