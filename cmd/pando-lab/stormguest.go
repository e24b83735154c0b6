package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// mostGuests is how many machines can be emulated at a time without waiting for the processors alone.
const mostGuests = 8

// guestLink is the link of a guest, and freeLink one that it never waits for: the control, which says how much of the time
// the link is to blame for.
const (
	guestLink = 20 * testkit.Mbit
	freeLink  = 10 * testkit.Gbit
)

// guestRun is some emulated machines that were switched on at once.
type guestRun struct {
	Guests     int       `json:"guests"`
	Rate       int64     `json:"rate"`           // of all links
	Skew       float64   `json:"skew,omitempty"` // seconds by which the clocks were wrong, in turn ahead and behind
	Began      time.Time `json:"began"`
	Booted     []float64 `json:"booted"`      // seconds from power-on to the default target, quickest first
	ServerSent int64     `json:"server_sent"` // with kernel and initramfs
	Load       load      `json:"load"`
}

// bootGuests boots whole machines on the links of the storm, and again on links without limit.
func (s *storm) bootGuests(ctx context.Context, m *material) error {
	rep, err := s.results(m)
	if err != nil {
		return err
	}
	if err := s.site.Close(); err != nil {
		return err
	}
	if err := s.serve(ctx, "own"); err != nil {
		return err
	}
	if err := s.welcome(ctx, testkit.KernelArgs()); err != nil {
		return err
	}
	for i := range s.guests {
		if err := s.star.Host(i); err != nil {
			return err
		}
	}
	rate := s.rate
	if rate == 0 {
		rate = guestLink
	}
	for _, rate := range []testkit.Rate{rate, freeLink} {
		r, err := s.bootGuestsAt(ctx, rate)
		if err != nil {
			return err
		}
		rep.Guests = append(rep.Guests, r)
		if err := rep.save(filepath.Join(s.dir, "storm.json")); err != nil {
			return err
		}
		s.say("%d guests, links of %s: booted after %.0f s", r.Guests, rate, r.Booted)
	}
	s.say("\n%s\nRaw data: %s", aligned(append([]row{guestHeads}, rep.guestRows()...)), filepath.Join(s.dir, "storm.json"))
	return nil
}

func guestName(i int) string { return fmt.Sprintf("guest%d", i+1) }

func (s *storm) bootGuestsAt(ctx context.Context, rate testkit.Rate) (r guestRun, err error) {
	if err := s.star.Limit(rate, rate); err != nil {
		return r, err
	}
	before, err := s.look()
	if err != nil {
		return r, err
	}
	r = guestRun{Guests: s.guests, Rate: int64(rate), Skew: s.skew.Seconds(), Began: time.Now().UTC(), Booted: make([]float64, s.guests)}
	errs := make([]error, s.guests)
	var all sync.WaitGroup
	for i := range s.guests {
		all.Go(func() { errs[i] = s.bootGuest(ctx, i, r.Began, &r.Booted[i]) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return r, err
	}
	slices.Sort(r.Booted)
	after, err := s.look()
	r.ServerSent = after.sent - before.sent
	r.Load = before.ticks.load(after.ticks, after.own-before.own)
	return r, err
}

// bootGuest makes the node anew, so that no earlier boot is taken for this one, and cuts the power when it is up.
func (s *storm) bootGuest(ctx context.Context, i int, began time.Time, booted *float64) (err error) {
	name, mac := guestName(i), fleet.MAC{0x52, 0x54, 0, 0xde, 2, byte(i)}
	if _, err := s.site.API.Node(ctx, name); err == nil {
		if _, err := s.site.API.DeleteNodes(ctx, name, false); err != nil {
			return err
		}
	}
	if _, err := s.site.API.CreateNode(ctx, api.NodeCreate{Name: name, MACs: []fleet.MAC{mac}}); err != nil {
		return err
	}
	m, err := testkit.StartMachine(testkit.MachineConfig{Name: name, Firmware: testkit.BIOS, MAC: mac, Net: s.star.Nodes[i], Memory: s.memory, Clock: skewOf(s.skew, i),
		Dir: filepath.Join(s.dir, "guests")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, recordTimeout, fmt.Errorf("not booted after %s", recordTimeout))
	defer cancel()
	if _, err := s.site.WaitNode(ctx, name, up); err != nil {
		return fmt.Errorf("%w; the console ends with:\n%s", err, m.Console.Tail(12))
	}
	*booted = time.Since(began).Seconds()
	return nil
}

// skewOf is how far the clock of one guest is ahead: each second one is behind.
func skewOf(skew time.Duration, i int) time.Duration {
	if i%2 == 1 {
		return -skew
	}
	return skew
}

var guestHeads = row{"guests", "links", "clocks wrong by", "first booted", "last booted", "server sent, with K", "machine"}

func (r *report) guestRows() (out []row) {
	for _, g := range r.Guests {
		out = append(out, row{fmt.Sprint(g.Guests), testkit.Rate(g.Rate).String(), orDash(g.Skew/60, "%.0f min", 1), fmt.Sprintf("%.0f s", g.Booted[0]),
			fmt.Sprintf("%.0f s", g.Booted[len(g.Booted)-1]), fmt.Sprintf("%.1f MB", mega(g.ServerSent)), fmt.Sprintf("%.0f %%", g.Load.Busy*100)})
	}
	return out
}
