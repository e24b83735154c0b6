package initrd

import (
	"context"
	"errors"
	"fmt"
	"pando/internal/api"
	"slices"
	"strings"
	"time"

	"pando/internal/backoff"
	"pando/internal/hardware"
	"pando/internal/kmod"
	"pando/internal/link"
	"pando/internal/problem"
)

// Bounds of waiting for hardware in one attempt of a phase.
const (
	settlePoll  = 20 * time.Millisecond
	settleFor   = 5 * time.Second // until the adapter that the firmware booted from appears; USB takes seconds
	settleQuiet = time.Second     // after this time without a new device, the search ends if there is any adapter
)

// loadModules loads the modules that every boot needs and those for the machine's devices, until the adapter that the
// firmware booted from appears. Loading all modules would take 8 to 20 s.
func (d *drivers) loadModules(ctx context.Context) (Modules, string, error) {
	if d.modules == nil {
		index, err := kmod.ReadIndex(kmod.DriverSets, diskSet)
		if err != nil {
			return Modules{}, "", &problem.Problem{Err: err, Final: true, Hint: "the initramfs has no drivers: " +
				"build the image again"}
		}
		d.modules = kmod.NewLoader(index, d.cmd)
	}
	begun := time.Now()
	alwaysErr := d.modules.Load(d.modules.Index.Always)
	deviceErr := d.settle(ctx)
	if deviceErr != nil { // what failed is not tried again
		d.failed = deviceErr
	}
	all := link.Adapters(hardware.Sysfs)
	if err := errors.Join(alwaysErr, deviceErr); err != nil {
		d.timeline.console.logf("modules: %v", err)
	}
	if alwaysErr != nil {
		return Modules{}, "", &problem.Problem{Err: alwaysErr, Hint: "kernel and modules do not fit each other: " +
			"build the image again"}
	}
	d.findDisk(context.WithoutCancel(ctx))
	if len(all) == 0 {
		return Modules{}, "", d.noAdapter(all, d.failed)
	}
	text := fmt.Sprintf("%d loaded, %s after %s", len(d.modules.Names), link.Names(all),
		time.Since(begun).Round(time.Millisecond))
	return Modules{d.modules.Names, d.failed}, text, nil
}

func (d *drivers) noAdapter(all []link.NIC, cause error) error {
	p := &problem.Problem{Err: errors.New("no wired network adapter appeared"),
		Tried: fmt.Sprintf("%d modules loaded by the machine's devices", len(d.modules.Names)),
		Hint:  "does the firmware show the adapter? is it USB: plug it in again"}
	if left := hardware.WithoutDriver(hardware.Sysfs); len(left) > 0 {
		p.Hint = "no driver of the image's kernel takes " + strings.Join(left, ", ") + ": use a newer kernel in it"
	}
	blameDriver(p, d.timeline.config, all, cause)
	return p
}

// blameDriver gives a problem the hint to the driver that could not be loaded, or was perhaps not sent, if the adapter
// that the firmware booted from is missing.
func blameDriver(p *problem.Problem, cfg api.BootConfig, all []link.NIC, cause error) {
	if slices.ContainsFunc(all, func(n link.NIC) bool { return n.MAC == cfg.MAC }) {
		return
	}
	if cause != nil {
		p.Err, p.Hint = errors.Join(p.Err, cause), cause.Error()
	}
	if cfg.ShortDrivers {
		p.Hint, p.Final = shortHint, true
	}
}

// shortHint is the hint if the server sent only the drivers of the adapters that it knew, and the adapter is another
// one. The failure is final, because the next boot gets all drivers.
const shortHint = "the server sent the drivers of only the adapters that it knew of; it sends all to the next boot"

// settle loads modules by modalias until settled. A loaded bus driver may make more devices appear, which need more
// drivers.
func (d *drivers) settle(ctx context.Context) error {
	var errs []error
	begun, changed, devices := time.Now(), time.Now(), -1
	for {
		aliases := kmod.DeviceAliases(hardware.Sysfs)
		wanted := d.modules.Wanted(aliases)
		if err := d.modules.Load(wanted); err != nil {
			errs = append(errs, err)
		}
		if len(wanted) > 0 || len(aliases) != devices {
			changed, devices = time.Now(), len(aliases)
		}
		if len(wanted) == 0 && d.settled(time.Since(begun), time.Since(changed)) {
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

// settled reports whether the search for adapters ends: at once with the adapter that the firmware booted from, after
// settleQuiet with any other, after settleFor in any case.
func (d *drivers) settled(total, quiet time.Duration) bool {
	all := link.Adapters(hardware.Sysfs)
	for _, n := range all {
		if n.MAC == d.timeline.config.MAC {
			return true
		}
	}
	return total > settleFor || len(all) > 0 && quiet > settleQuiet
}

// waitLink brings up the adapter that the firmware booted from and waits for its link. Without a link there, or if no
// adapter has that MAC, it tries all adapters and returns those that get a link first. A failure names the driver that
// could not be loaded if that adapter is missing.
func (n *network) waitLink(ctx context.Context, driver error) (Link, string, error) {
	all := link.Adapters(hardware.Sysfs)
	candidates := link.Pick(all, n.timeline.config.MAC)
	up, err := link.WaitCarrier(ctx, candidates)
	if len(up) == 0 && len(candidates) < len(all) {
		n.timeline.console.logf("link: none on %s, trying the other adapters", link.Names(candidates))
		up, err = link.WaitCarrier(ctx, all)
	}
	if len(up) > 0 {
		return Link{all, up}, link.Names(up), nil
	}
	p := &problem.Problem{Err: errors.Join(errors.New("no network link"), err), Tried: link.Names(all) + ", 15 s each"}
	blameDriver(p, n.timeline.config, all, driver)
	if b := n.lastBoot(ctx, all); b != nil { // use its adapter even without a cable
		return Link{all, []link.NIC{all[nicOf(all, b.Lease.MAC)]}}, "none; goes on without a network", nil
	}
	return Link{}, "", p
}
