package boot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
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
		index, err := readDriverSets(driverSets, diskSet)
		if err != nil {
			return "", &Problem{Err: err, Final: true, Hint: "the initramfs holds no drivers: build the image anew"}
		}
		m.modules = newModuleLoader(index, m.cmd)
	}
	begun := time.Now()
	alwaysErr := m.modules.load(m.modules.index.always)
	deviceErr := m.settle(ctx)
	m.all = adapters(sysfs)
	if err := errors.Join(alwaysErr, deviceErr); err != nil {
		m.console.logf("modules: %v", err)
	}
	if alwaysErr != nil {
		return "", &Problem{Err: alwaysErr, Hint: "kernel and modules do not fit each other: build the image anew"}
	}
	m.findDisk(context.WithoutCancel(ctx))
	if len(m.all) == 0 {
		return "", m.noAdapter(deviceErr)
	}
	return fmt.Sprintf("%d loaded, %s after %s", len(m.modules.names), nicNames(m.all),
		time.Since(begun).Round(time.Millisecond)), nil
}

func (m *machine) noAdapter(cause error) error {
	p := &Problem{Err: errors.New("no wired network adapter appeared"),
		Tried: fmt.Sprintf("%d modules loaded by the machine's devices", len(m.modules.names)),
		Hint:  "does the firmware show the adapter? is it USB: plug it in again"}
	if left := withoutDriver(sysfs); len(left) > 0 {
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
	return m.config.ShortDrivers && !slices.ContainsFunc(m.all, func(n nic) bool { return n.MAC == m.config.MAC })
}

// settle loads modules by modalias until the adapter that booted is there, or nothing new has appeared for a
// while. A bus driver makes devices appear that want more drivers.
func (m *machine) settle(ctx context.Context) error {
	var errs []error
	begun, changed, devices := time.Now(), time.Now(), -1
	for {
		aliases := deviceAliases(sysfs)
		wanted := m.modules.wanted(aliases)
		if err := m.modules.load(wanted); err != nil {
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
		if err := sleep(ctx, settlePoll); err != nil {
			return err
		}
	}
}

// settled decides whether to go on: at once with the adapter that booted, after a quiet time with any other,
// after settleFor in any case.
func (m *machine) settled(total, quiet time.Duration) bool {
	all := adapters(sysfs)
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
	m.all = adapters(sysfs)
	candidates := pick(m.all, m.config.MAC)
	up, err := waitCarrier(ctx, candidates)
	if len(up) == 0 && len(candidates) < len(m.all) {
		m.console.logf("link: none on %s, trying the other adapters", nicNames(candidates))
		up, err = waitCarrier(ctx, m.all)
	}
	if len(up) == 0 {
		p := &Problem{Err: errors.Join(errors.New("no network link"), err), Tried: nicNames(m.all) + ", 15 s each"}
		if m.shortOfDrivers() {
			p.Hint, p.Final = shortHint, true
		}
		return m.offlineLink(ctx, p)
	}
	m.nics = up
	return nicNames(up), nil
}
