package initrd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pando/internal/backoff"
	"pando/internal/hardware"
	"pando/internal/kmod"
	"pando/internal/link"
	"pando/internal/problem"
)

// Bounds of waiting for hardware, each within one attempt of a phase.
const (
	settlePoll  = 20 * time.Millisecond
	settleFor   = 5 * time.Second // for the adapter that booted to appear; USB takes seconds
	settleQuiet = time.Second     // without a new device: it will not appear any more
)

// loadModules loads what every boot needs and what the devices ask for, until the adapter that booted is
// there. Loading everything would take 8 to 20 s; this takes well under one.
func (m *machine) loadModules(ctx context.Context) (string, error) {
	if m.modules == nil {
		index, err := kmod.ReadIndex(kmod.DriverSets, diskSet)
		if err != nil {
			return "", &problem.Problem{Err: err, Final: true, Hint: "the initramfs holds no drivers: build the image anew"}
		}
		m.modules = kmod.NewLoader(index, m.cmd)
	}
	begun := time.Now()
	alwaysErr := m.modules.Load(m.modules.Index.Always)
	deviceErr := m.settle(ctx)
	m.all = link.Adapters(hardware.Sysfs)
	if err := errors.Join(alwaysErr, deviceErr); err != nil {
		m.console.logf("modules: %v", err)
	}
	if alwaysErr != nil {
		return "", &problem.Problem{Err: alwaysErr, Hint: "kernel and modules do not fit each other: build the image anew"}
	}
	m.findDisk(context.WithoutCancel(ctx))
	if len(m.all) == 0 {
		return "", m.noAdapter(deviceErr)
	}
	return fmt.Sprintf("%d loaded, %s after %s", len(m.modules.Names), link.Names(m.all),
		time.Since(begun).Round(time.Millisecond)), nil
}

func (m *machine) noAdapter(cause error) error {
	p := &problem.Problem{Err: errors.New("no wired network adapter appeared"),
		Tried: fmt.Sprintf("%d modules loaded by the machine's devices", len(m.modules.Names)),
		Hint:  "does the firmware show the adapter? is it USB: plug it in again"}
	if left := hardware.WithoutDriver(hardware.Sysfs); len(left) > 0 {
		p.Hint = "no driver in the image's kernel takes " + strings.Join(
			left,
			", ",
		) + ": use a newer kernel in the image"
	}
	if m.shortOfDrivers() {
		p.Hint, p.Final = shortHint, true
	}
	if cause != nil {
		p.Err = errors.Join(p.Err, cause)
	}
	return p
}

// shortHint is what becomes of a boot whose adapter is not one that the server knew of. The sooner the next one comes,
// the better.
const shortHint = "the server sent the drivers of only the adapters that it knew of; it sends all to the next boot"

// shortOfDrivers reports whether the adapter that booted is missing, perhaps because its driver was not sent.
func (m *machine) shortOfDrivers() bool {
	return m.config.ShortDrivers && !slices.ContainsFunc(m.all, func(n link.NIC) bool { return n.MAC == m.config.MAC })
}

// settle loads modules by modalias until the adapter that booted is there, or nothing new has appeared for a
// while. A bus driver makes devices appear that want more drivers.
func (m *machine) settle(ctx context.Context) error {
	var errs []error
	begun, changed, devices := time.Now(), time.Now(), -1
	for {
		aliases := kmod.DeviceAliases(hardware.Sysfs)
		wanted := m.modules.Wanted(aliases)
		if err := m.modules.Load(wanted); err != nil {
			errs = append(errs, err)
		}
		if len(wanted) > 0 || len(aliases) != devices {
			changed, devices = time.Now(), len(aliases)
		}
		if len(wanted) == 0 && m.settled(time.Since(begun), time.Since(changed)) {
			return errors.Join(errs...)
		}
		if len(wanted) > 0 {
			continue
		}
		if err := backoff.Sleep(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// settled decides whether to go on: at once with the adapter that booted, after a quiet time with any other,
// after settleFor in any case.
func (m *machine) settled(total, quiet time.Duration) bool {
	all := link.Adapters(hardware.Sysfs)
	for _, n := range all {
		if n.MAC == m.config.MAC {
			return true
		}
	}
	return total > settleFor || len(all) > 0 && quiet > settleQuiet
}

// waitLink brings up the adapter that booted and waits for its link. Without a link there, or when no adapter
// has that MAC, all adapters are tried and the first ones with a link are taken.
func (m *machine) waitLink(ctx context.Context) (string, error) {
	m.all = link.Adapters(hardware.Sysfs)
	candidates := link.Pick(m.all, m.config.MAC)
	up, err := link.WaitCarrier(ctx, candidates)
	if len(up) == 0 && len(candidates) < len(m.all) {
		m.console.logf("link: none on %s, trying the other adapters", link.Names(candidates))
		up, err = link.WaitCarrier(ctx, m.all)
	}
	if len(up) == 0 {
		p := &problem.Problem{Err: errors.Join(errors.New("no network link"), err), Tried: link.Names(m.all) + ", 15 s each"}
		if m.shortOfDrivers() {
			p.Hint, p.Final = shortHint, true
		}
		return m.offlineLink(ctx, p)
	}
	m.nics = up
	return link.Names(up), nil
}
