package testbed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"image/png"
	"path/filepath"
	"slices"
	"time"

	"pando/internal/api"
	"pando/internal/build/packer"
	"pando/internal/fleet"
	"pando/internal/image/bootpack"
	"pando/internal/store"
	"pando/internal/testkit"
	"pando/internal/trace"
)

// RecordTimeout bounds a recorded boot, including what follows it. On a busy computer with two processors an emulated
// desktop may take more than ten minutes.
const RecordTimeout = 20 * time.Minute

// recordBoots is how many boots are recorded, as many as a boot pack should have.
const recordBoots = 2

// recorded returns what boots of a version read. If there are no recordings, an emulated machine boots it on a link
// without a limit, so that the pauses between reads are those of the boot itself.
func (t *Testbed) recorded(ctx context.Context, m *Material) ([]packer.Recording, error) {
	boots, err := t.recordings(m.Version)
	if err != nil || len(boots) > 0 {
		return boots, err
	}
	beside, stop := context.WithCancel(ctx)
	defer stop()
	made := make(chan error, 1)
	go func() { made <- t.beside(beside, m) }()
	if err := t.record(ctx, m.Version); err != nil {
		stop()
		<-made // it was cancelled, or its result is made again when needed
		return nil, fmt.Errorf("record a boot (or name a trace with --reads): %w", err)
	}
	if err := <-made; err != nil {
		return nil, err
	}
	return t.recordings(m.Version)
}

// record restarts the server with its own DHCP, boots the machine, and restarts the server as before.
func (t *Testbed) record(ctx context.Context, v fleet.Digest) error {
	t.Say("Boot:   no boot of version %s is recorded; an emulated machine boots it %d times", v.Short(), recordBoots)
	if err := t.Site.Close(); err != nil {
		return err
	}
	if err := t.Serve(ctx, "own"); err != nil {
		return err
	}
	if err := t.AdoptAll(ctx, testkit.KernelArgs()); err != nil {
		return err
	}
	for n := range recordBoots {
		if err := t.askFor(ctx); err != nil {
			return err
		}
		if err := t.recordOne(ctx, v, n+1); err != nil {
			return err
		}
	}
	if err := t.packed(ctx, v); err != nil {
		return err
	}
	if err := t.Site.Close(); err != nil {
		return err
	}
	return t.Serve(ctx, "off")
}

// packed waits until the server has made a boot pack of the recordings. That takes a processor a minute or two, which
// would disturb a storm, and changes W.
func (t *Testbed) packed(ctx context.Context, v fleet.Digest) error {
	dir, err := store.OpenDir(filepath.Join(t.DataDir(), "store"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		RecordTimeout,
		fmt.Errorf("the server made no boot pack within %s; its log is %s", RecordTimeout, t.Site.Config.Log),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		records, err := dir.Packs(v)
		if err != nil {
			return err
		}
		kept, err := readKept(t.tracesOf(v))
		if err != nil || upToDate(records, kept) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// upToDate reports whether there is a boot pack that the server will not replace because of a later, longer recording.
func upToDate(records []bootpack.Record, kept []keptBoot) bool {
	return slices.ContainsFunc(records, func(r bootpack.Record) bool {
		return r.Class == "" &&
			!slices.ContainsFunc(kept, func(k keptBoot) bool { return k.Reached && k.Received.After(r.Made) })
	})
}

// AdoptAll lets any machine boot the image.
func (t *Testbed) AdoptAll(ctx context.Context, args []string) error {
	ref := fleet.Ref(t.Image)
	if _, err := t.Site.API.SetGroup(ctx, fleet.DefaultGroup,
		api.GroupSet{Image: &ref, KernelArgs: &args}); err != nil {
		return err
	}
	_, err := t.Site.API.SetPolicy(ctx, api.Policy{Adoption: fleet.Open, Naming: "pc[001-]"})
	return err
}

// recorderMAC is the MAC address of the machine whose boots are recorded. recorder is its name.
var recorderMAC = fleet.MAC{0x52, 0x54, 0, 0xde, 1, 1}

const recorder = "record"

// askFor requests a recording of the next boot until the mark t.Until. The server records boots until `booted` without
// a request.
func (t *Testbed) askFor(ctx context.Context) error {
	if t.Until == trace.Booted {
		return nil
	}
	name, err := t.recorderNode(ctx)
	if err != nil {
		return err
	}
	_, err = t.Site.API.SetRecording(ctx, name, api.RecordingSet{Until: string(t.Until)})
	return err
}

// recorderNode returns the name of the machine whose boots are recorded. A machine from an earlier recording keeps the
// name that it got then.
func (t *Testbed) recorderNode(ctx context.Context) (string, error) {
	nodes, err := t.Site.API.Nodes(ctx, "")
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if slices.Contains(n.MACs, recorderMAC) {
			return n.Name, nil
		}
	}
	_, err = t.Site.API.CreateNode(ctx, api.NodeCreate{Name: recorder, MACs: []fleet.MAC{recorderMAC}})
	return recorder, err
}

// recorderMachine returns the machine whose boots are recorded. It has the same hardware as the measured ones: a pack
// recorded without a graphics card lacks half of what a desktop reads with one.
func (t *Testbed) recorderMachine() testkit.MachineConfig {
	c := testkit.MachineConfig{
		Name:     recorder,
		Firmware: testkit.BIOS,
		MAC:      recorderMAC,
		Memory:   t.Memory,
		Net:      t.Star.Server,
		Dir:      filepath.Join(t.Dir, "record"),
		Screen:   t.Screen,
	}
	if t.Until != trace.Booted { // there may be a desktop
		c.Screen, c.CPUs = true, 2
	}
	return c
}

// recordOne boots a machine until the server has the wanted number of traces.
func (t *Testbed) recordOne(ctx context.Context, v fleet.Digest, want int) (err error) {
	m, err := testkit.StartMachine(t.recorderMachine())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	ctx, cancel := context.WithTimeoutCause(
		ctx,
		RecordTimeout,
		fmt.Errorf("no trace of boot %d after %s", want, RecordTimeout),
	)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		boots, err := t.recordings(v)
		if err != nil {
			return err
		}
		if len(boots) >= want {
			return t.keepScreen(ctx, m)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; the machine's console ends with:\n%s", context.Cause(ctx), m.Console.Tail(12))
		}
	}
}

// screenName is the file beside the results with a picture of the screen when a boot reached its mark.
const screenName = "screen.png"

// keepScreen saves a picture of a machine's screen, if the machine has a screen.
func (t *Testbed) keepScreen(ctx context.Context, m *testkit.Machine) error {
	if !m.Config.Screen {
		return nil
	}
	shot, err := m.Screenshot(ctx)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := png.Encode(&out, shot); err != nil {
		return err
	}
	return store.WriteFile(filepath.Join(t.Dir, screenName), out.Bytes(), 0o644)
}

// Serve starts the server. Without DHCP no machine boots, so it needs no TFTP and no boot loaders.
func (t *Testbed) Serve(ctx context.Context, dhcp string, more ...string) error {
	args := append([]string{"--http", ":" + DataPort}, more...)
	if dhcp == "off" {
		args = append(args, "--tftp", "off")
	}
	site, err := testkit.StartSite(
		ctx,
		testkit.SiteConfig{Net: t.Star.Server, Bin: cmp.Or(t.Programs, t.Bin), Data: t.DataDir(), DHCP: dhcp,
			Log: filepath.Join(t.Dir, "server.log"), Args: args},
	)
	if err == nil {
		t.Site = site
	}
	return err
}
