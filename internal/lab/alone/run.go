package alone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"pando/internal/bench"
	"pando/internal/bench/testbed"
	"pando/internal/fleet"
	"pando/internal/testkit"
)

// aloneTimeout bounds one boot.
const aloneTimeout = 6 * time.Minute

var aloneMAC = fleet.MAC{0x52, 0x54, 0, 0xde, 4, 1}

// bootPando boots through firmware. The node itself reports the time since /init.
func bootPando(ctx context.Context, a *Alone, _ *testbed.Material) (seconds float64, err error) {
	before, err := a.lastBoot(ctx)
	if err != nil {
		return 0, err
	}
	err = a.guest(ctx, testkit.Direct{}, func(ctx context.Context, _ *testkit.Machine) error {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if seconds, err = a.booted(ctx, before); err != nil || seconds > 0 {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	return seconds, err
}

// lastBoot returns the id of the server's latest boot, "" for none.
func (a *Alone) lastBoot(ctx context.Context) (fleet.BootID, error) {
	boots, err := a.Site.API.Boots(ctx, "", 1)
	if err != nil || len(boots) == 0 {
		return "", err
	}
	return boots[0].ID, nil
}

// booted returns the node's own time when it reached its default target, or 0 until a boot after `before` has reached
// it.
func (a *Alone) booted(ctx context.Context, before fleet.BootID) (float64, error) {
	boots, err := a.Site.API.Boots(ctx, "", 1)
	if err != nil || len(boots) == 0 || boots[0].ID == before {
		return 0, err
	}
	b, err := a.Site.API.Boot(ctx, boots[0].ID)
	if err != nil {
		return 0, err
	}
	e := testbed.BootedEvent(b)
	if e.Offset > 0 && e.Bytes["pack"] == 0 && b.Bytes["pack"] == 0 {
		return 0, errors.New("the boot had no boot pack")
	}
	return e.Offset.Seconds(), nil
}

// bootRival starts a rival's servers, and boots with its initramfs.
func (a *Alone) bootRival(ctx context.Context, r bench.KernelRival, m *testbed.Material) (seconds float64, err error) {
	d, stop, err := r.Start(ctx, a.Host(), m.Image, a.kernelArgs())
	if err != nil {
		return 0, err
	}
	defer stop()
	err = a.guest(ctx, d, func(ctx context.Context, g *testkit.Machine) (err error) {
		seconds, err = r.Booted(ctx, g)
		return err
	})
	return seconds, err
}

// guest runs a machine until wait returns, and switches it off.
func (a *Alone) guest(ctx context.Context, d testkit.Direct, wait func(context.Context, *testkit.Machine) error) error {
	m, err := testkit.StartMachine(
		testkit.MachineConfig{
			Name:     "alone",
			Firmware: testkit.BIOS,
			MAC:      aloneMAC,
			Memory:   a.Memory,
			Counted:  !a.wall,
			Screen:   a.Screen,
			Net:      a.Star.Server,
			Dir:      filepath.Join(a.Dir, "alone"),
			Direct:   d,
		},
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, aloneTimeout, fmt.Errorf("not booted after %s", aloneTimeout))
	defer cancel()
	if err := wait(ctx, m); err != nil {
		return errors.Join(fmt.Errorf("%w; the console ends with:\n%s", err, m.Console.Tail(15)), m.Close())
	}
	return m.Close()
}
