package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pando/internal/fleet"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// aloneTimeout is how long one boot may take.
const aloneTimeout = 6 * time.Minute

var aloneMAC = fleet.MAC{0x52, 0x54, 0, 0xde, 4, 1}

// bootPando boots by firmware; the node itself says how long it took since /init.
func (a *alone) bootPando(ctx context.Context, _ *material) (seconds float64, err error) {
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

// lastBoot is the id of the latest boot that the server knows, "" for none.
func (a *alone) lastBoot(ctx context.Context) (fleet.BootID, error) {
	boots, err := a.site.API.Boots(ctx, "", 1)
	if err != nil || len(boots) == 0 {
		return "", err
	}
	return boots[0].ID, nil
}

// booted is the node's own time at its default target, 0 while a boot after the one before has not come so far.
func (a *alone) booted(ctx context.Context, before fleet.BootID) (float64, error) {
	boots, err := a.site.API.Boots(ctx, "", 1)
	if err != nil || len(boots) == 0 || boots[0].ID == before {
		return 0, err
	}
	b, err := a.site.API.Boot(ctx, boots[0].ID)
	if err != nil {
		return 0, err
	}
	for _, e := range b.Events {
		switch {
		case e.Stage != trace.Booted || e.Offset == 0:
		case e.Bytes["pack"] == 0 && b.Bytes["pack"] == 0:
			return 0, errors.New("the boot had no boot pack")
		default:
			return e.Offset.Seconds(), nil
		}
	}
	return 0, nil
}

// bootNBD boots a squashfs over the network's block device.
func (a *alone) bootNBD(ctx context.Context, m *material, readAhead string) (float64, error) {
	file, err := m.squashfs(ctx)
	if err != nil {
		return 0, err
	}
	c := a.star.Server.Command(context.Background(), "nbdkit", "--foreground", "--readonly", "--port", strconv.Itoa(nbdPort), "file", file)
	address := net.JoinHostPort(stormNet.Addr().String(), strconv.Itoa(nbdPort))
	p, err := startProgram(ctx, c, filepath.Join(a.dir, "nbdkit.log"), func() bool {
		conn, err := a.star.Server.Dial(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if err != nil {
		return 0, err
	}
	defer p.stop()
	return a.bootRival(ctx, m, "", "lab.root=nbd", "lab.server="+stormNet.Addr().String(), "lab.ahead="+readAhead)
}

// bootDisk boots the same file system from a disk.
func (a *alone) bootDisk(ctx context.Context, m *material) (float64, error) {
	file, err := m.rawFile(ctx)
	if err != nil {
		return 0, err
	}
	return a.bootRival(ctx, m, file, "lab.root=disk")
}

// bootRival boots with the rivals' initramfs, which writes two times on the console.
func (a *alone) bootRival(ctx context.Context, m *material, disk string, args ...string) (seconds float64, err error) {
	kernel, initrd, err := m.rivalBoot(ctx)
	if err != nil {
		return 0, err
	}
	d := testkit.Direct{Kernel: kernel, Initrd: initrd, Disk: disk,
		Args: slices.Concat(m.manifest.CommandLine, a.kernelArgs(), args)}
	err = a.guest(ctx, d, func(ctx context.Context, g *testkit.Machine) error {
		line, err := g.Console.Wait(ctx, "LAB booted [0-9.]+ [0-9.]+")
		if err != nil {
			return err
		}
		var from, to float64
		if _, err := fmt.Sscanf(line[strings.Index(line, "LAB"):], "LAB booted %f %f", &from, &to); err != nil || to <= from {
			return fmt.Errorf("the console says %q: %w", line, err)
		}
		seconds = to - from
		return nil
	})
	return seconds, err
}

// guest runs a machine until wait returns, and turns it off.
func (a *alone) guest(ctx context.Context, d testkit.Direct, wait func(context.Context, *testkit.Machine) error) error {
	m, err := testkit.StartMachine(testkit.MachineConfig{Name: "alone", Firmware: testkit.BIOS, MAC: aloneMAC, Memory: a.memory, Counted: !a.wall,
		Net: a.star.Server, Dir: filepath.Join(a.dir, "alone"), Direct: d})
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
